FROM python:3.11
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN apt-get update && apt-get install -y --no-install-recommends libpq-dev gettext && rm -rf /var/lib/apt/lists/*
WORKDIR /code
COPY requirements.txt /code/
RUN pip install --no-cache-dir -r requirements.txt
COPY . /code/
RUN python manage.py collectstatic --noinput
RUN adduser --disabled-password --gecos '' django
USER django
CMD gunicorn config.wsgi:application --bind 0.0.0.0:8000 --workers 4 --threads 2

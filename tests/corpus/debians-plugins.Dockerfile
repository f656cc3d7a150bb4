FROM python:3.12-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends \
    uwsgi-core uwsgi-plugin-python3 \
    libpython3.11 python3-psycopg2 libapache2-mod-wsgi-py3 \
    && rm -rf /var/lib/apt/lists/*
COPY . /srv
CMD ["uwsgi", "--plugin", "python3", "--ini", "/srv/uwsgi.ini"]

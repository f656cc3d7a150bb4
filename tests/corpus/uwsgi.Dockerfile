FROM python:3.12-slim-bookworm
RUN apt-get update && apt-get install -y gcc && pip install uwsgi
RUN adduser --system --group app
USER app
CMD ["uwsgi", "--http", ":8000", "--enable-threads", "--module", "app"]

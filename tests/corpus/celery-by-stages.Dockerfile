FROM python:3.12-slim-bookworm as python
FROM python as build
RUN apt-get update && apt-get install --no-install-recommends -y build-essential libpq-dev
COPY ./requirements .
RUN pip wheel --wheel-dir /usr/src/app/wheels -r production.txt
FROM python as run
ARG APP_HOME=/app
RUN addgroup --system django && adduser --system --ingroup django django
COPY --from=build /usr/src/app/wheels /wheels/
RUN pip install --no-cache-dir --no-index --find-links=/wheels/ /wheels/* && rm -rf /wheels/
ENTRYPOINT ["/entrypoint"]
CMD ["celery", "-A", "config", "worker"]

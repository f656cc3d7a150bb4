ARG ASSETS
FROM ${ASSETS} AS assets
FROM python:3.12-slim
COPY --from=assets /out /srv/static

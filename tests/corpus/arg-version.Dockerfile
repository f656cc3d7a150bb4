ARG PY=3.12
FROM python:${PY}-slim AS base
ARG PY
ENV SITE=/usr/local/lib/python${PY}/site-packages
RUN rm -rf "$SITE/pip"
FROM base
COPY . /app

FROM ${PYTHON_IMAGE:-python:3.12-slim} AS app
COPY . /app

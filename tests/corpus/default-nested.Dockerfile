ARG REGISTRY
FROM ${REGISTRY:-docker.io/library}/python:${PY:-3.12}-slim
COPY . /app

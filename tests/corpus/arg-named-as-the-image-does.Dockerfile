ARG PYTHON_VERSION=3.12
FROM python:${PYTHON_VERSION}-slim AS build
ARG PYTHON_VERSION
RUN pip install --prefix=/install flask
FROM debian:trixie-slim
ARG PYTHON_VERSION
COPY --from=build /usr/local /usr/local
COPY --from=build /install/lib/python${PYTHON_VERSION}/site-packages /usr/local/lib/python${PYTHON_VERSION}/site-packages

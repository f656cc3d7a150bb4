# syntax=docker/dockerfile:1
FROM python:3.12 AS build
RUN pip install --prefix=/i \
    flask
FROM python:3.12-slim
COPY --from=build /i/lib/python3.12 /usr/local/lib/python3.12

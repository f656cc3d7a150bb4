FROM debian:trixie-slim AS tools
FROM python:3.12-slim AS python
RUN pip install poetry
FROM python AS app
COPY . .

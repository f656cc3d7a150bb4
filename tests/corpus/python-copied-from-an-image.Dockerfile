FROM debian:trixie-slim
COPY --from=python:3.10-slim /usr/local /usr/local
RUN --mount=from=python:3.10-slim,target=/py ls /py

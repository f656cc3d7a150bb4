# The base can be overridden in CI.
ARG BASE="python:3.12-slim-bookworm"
FROM $BASE AS app
COPY . .
FROM ${BASE} AS worker
COPY worker .

# syntax=docker/dockerfile:1.7
FROM --platform=$BUILDPLATFORM python:3.12-slim AS build
ARG TARGETARCH
RUN pip download --platform manylinux2014_${TARGETARCH} --only-binary=:all: -d /wheels orjson
FROM --platform=$TARGETPLATFORM python:3.12-slim
COPY --from=build /wheels /wheels
RUN pip install --no-index --find-links=/wheels orjson

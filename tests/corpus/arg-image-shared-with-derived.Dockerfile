ARG BASE=python:3.12
FROM $BASE AS build
RUN pip wheel -w /wheels numpy
FROM ${BASE}-slim
COPY --from=build /wheels /wheels
RUN pip install /wheels/*

FROM --platform=linux/amd64 python:3.12-slim AS app
RUN pip install lightgbm

FROM python:3.12-slim AS base
ENV PYTHONDONTWRITEBYTECODE=1

FROM base AS test
RUN pip install pytest
COPY . .
RUN pytest -q

FROM python:3.12-slim AS docs
RUN pip install sphinx

FROM base AS prod
COPY . .

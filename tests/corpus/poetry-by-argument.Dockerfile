ARG PYTHON_VERSION=3.11
FROM python:${PYTHON_VERSION}-slim AS builder
ENV POETRY_VERSION=1.8.3 POETRY_HOME=/opt/poetry POETRY_VIRTUALENVS_IN_PROJECT=true
RUN apt-get update && apt-get install -y curl && curl -sSL https://install.python-poetry.org | python3 -
ENV PATH="$POETRY_HOME/bin:$PATH"
WORKDIR /app
COPY pyproject.toml poetry.lock ./
RUN poetry env use python${PYTHON_VERSION} && poetry install --only main --no-root
FROM python:${PYTHON_VERSION}-slim AS runtime
COPY --from=builder /app/.venv /app/.venv
ENV PATH="/app/.venv/bin:$PATH"
CMD ["python", "-m", "service"]

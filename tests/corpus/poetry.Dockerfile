FROM python:3.12-slim AS poetry
ENV POETRY_VIRTUALENVS_IN_PROJECT=true
RUN pip install poetry==2.1.3
WORKDIR /code
COPY pyproject.toml poetry.lock ./
RUN poetry install --only main
FROM python:3.12-slim
COPY --from=poetry /code/.venv /code/.venv
ENV PYTHONPATH=/code/.venv/lib/python3.12/site-packages

FROM python:3.10-slim-bullseye AS base
ENV LANG=C.UTF-8 PIPENV_VENV_IN_PROJECT=1
FROM base AS python-deps
RUN pip install pipenv
RUN apt-get update && apt-get install -y --no-install-recommends gcc
COPY Pipfile Pipfile.lock ./
RUN pipenv install --deploy --python 3.10
FROM base AS runtime
COPY --from=python-deps /.venv /.venv
ENV PATH="/.venv/bin:$PATH"
RUN useradd --create-home appuser
ENTRYPOINT ["python", "-m", "http.server"]

FROM python:3.12-slim AS pdm
COPY pyproject.toml pdm.lock .python-version ./
RUN pip install pdm && pdm install --prod --no-editable
FROM python:3.12-slim AS pipenv
COPY Pipfile Pipfile.lock ./
RUN python3 -m pipenv install --system --deploy
FROM python:3.12-slim AS told
ENV PDM_USE_PYTHON_VERSION=0
RUN pdm sync && pip install hatch pipenv
FROM python:3.12-slim
RUN pip install hatch
CMD ["hatch", "run", "serve"]

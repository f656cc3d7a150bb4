FROM python:3.12-slim
RUN pip install uv==0.4.30
COPY .python-version pyproject.toml uv.lock ./
RUN uv sync --python 3.12 && uv run --python=python3.12 true
ENV UV_SYSTEM_PYTHON=1
RUN uv pip install --python /usr/local/bin/python3.12 requests && uv venv --python 3.12 /venv && uv tool install ruff
CMD ["uv", "run", "app"]

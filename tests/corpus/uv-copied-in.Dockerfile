FROM python:3.12-slim
COPY --from=ghcr.io/astral-sh/uv:0.8.0 /uv /uvx /bin/
ENV UV_PYTHON=3.12
RUN uv sync --python 3.12 --locked
CMD ["uv", "run", "app"]

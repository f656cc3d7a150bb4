FROM python:3.12-slim
COPY --from=ghcr.io/astral-sh/uv:0.4.20 /uv /bin/
RUN uv python install 3.12 && uv venv /opt/venv

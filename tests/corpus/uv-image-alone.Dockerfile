FROM ghcr.io/astral-sh/uv:0.8.3-python3.13-trixie-slim
WORKDIR /app
COPY . .
RUN uv sync --frozen
CMD ["uv", "run", "app.py"]

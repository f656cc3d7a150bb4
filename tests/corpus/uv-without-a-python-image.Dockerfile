FROM debian:bookworm-slim AS builder
COPY --from=ghcr.io/astral-sh/uv:0.8 /uv /uvx /bin/
ENV UV_PYTHON_INSTALL_DIR=/python UV_PYTHON_PREFERENCE=only-managed
RUN uv python install 3.13
WORKDIR /app
RUN uv sync --locked --no-dev
FROM debian:bookworm-slim
COPY --from=builder /python /python
COPY --from=builder /app /app
ENV PATH=/app/.venv/bin:$PATH
CMD ["hello"]

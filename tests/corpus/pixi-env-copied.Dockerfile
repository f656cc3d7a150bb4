FROM ghcr.io/prefix-dev/pixi:0.41.4-bookworm AS build
WORKDIR /app
COPY . .
RUN pixi install --locked -e prod
RUN pixi shell-hook -e prod -s bash > /shell-hook
FROM python:3.12-slim
WORKDIR /app
COPY --from=build /app/.pixi/envs/prod /app/.pixi/envs/prod
COPY --from=build /shell-hook /shell-hook
ENV PATH=/app/.pixi/envs/prod/bin:$PATH
CMD ["uvicorn", "app:app"]

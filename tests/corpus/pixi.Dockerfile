FROM python:3.12-slim
COPY --from=ghcr.io/prefix-dev/pixi:0.40.0 /usr/local/bin/pixi /usr/local/bin/pixi
WORKDIR /app
COPY pixi.toml pixi.lock ./
RUN pixi install --locked -e prod
COPY . .
CMD ["pixi", "run", "-e", "prod", "start"]

FROM node:22-alpine AS frontend
WORKDIR /web
COPY web/package*.json ./
RUN npm ci
COPY web .
RUN npm run build

FROM python:3.12-slim-bookworm
COPY --from=frontend /web/dist /srv/static
COPY pyproject.toml .
RUN pip install .

# syntax=docker/dockerfile:1
FROM python:3.12-slim AS deps
RUN pip install --target=/usr/local/lib/python3.12/site-packages attrs
FROM python:3.12-slim
RUN --mount=type=bind,from=deps,source=/usr/local/lib/python3.12/site-packages,target=/mnt/sp \
    --mount=type=cache,target=/root/.cache \
    cp -r /mnt/sp/attr /usr/local/lib/python3.12/site-packages/

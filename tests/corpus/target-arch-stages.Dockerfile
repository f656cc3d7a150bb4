FROM python:3.12-slim AS base-amd64
RUN pip install intel-openmp
FROM python:3.12-slim AS base-arm64
FROM base-${TARGETARCH} AS final
RUN ls /usr/local/lib/python3.12

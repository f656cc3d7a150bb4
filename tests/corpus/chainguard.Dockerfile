FROM cgr.dev/chainguard/python:latest-dev AS builder
WORKDIR /app
RUN python -m venv venv
COPY requirements.txt .
RUN venv/bin/pip install -r requirements.txt
FROM cgr.dev/chainguard/python:latest
COPY --from=builder /app/venv /app/venv
ENTRYPOINT ["/app/venv/bin/python", "-m", "app"]

FROM python:3.12-slim AS build
WORKDIR /app
COPY requirements.txt .
RUN pip install --no-cache-dir --target=/app/deps -r requirements.txt
FROM gcr.io/distroless/python3-debian12
COPY --from=build /app /app
ENV PYTHONPATH=/app/deps
ENTRYPOINT ["python3", "/app/main.py"]

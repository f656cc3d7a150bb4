FROM python:3.12-slim AS build
RUN pip install --prefix=/install -r requirements.txt
FROM cgr.dev/chainguard/wolfi-base
RUN apk add --no-cache python-3.12
COPY --from=build /install /usr
CMD ["python3.12", "-m", "app"]

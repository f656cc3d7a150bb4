FROM python:3.12-slim-bookworm AS py
FROM registry.access.redhat.com/ubi9/ubi-minimal:9.4
COPY --from=py /usr/local /usr/local
CMD ["python3", "-m", "app"]

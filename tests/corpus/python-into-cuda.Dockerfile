FROM python:3.12-slim-bookworm AS py
FROM nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04
COPY --from=py /usr/local /usr/local
CMD ["python3", "-m", "app"]

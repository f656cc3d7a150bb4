FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04
RUN apt-get update && apt-get install -y python3.11 python3.11-venv python3-pip
COPY --from=python:3.12-slim /usr/local /usr/local
RUN pip3 install torch
CMD ["python3", "train.py"]

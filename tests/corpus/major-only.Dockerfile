FROM python:3-slim
RUN pip install black
COPY black.toml /usr/local/lib/python3.13/site-packages/

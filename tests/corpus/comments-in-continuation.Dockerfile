FROM python:3.12-slim
RUN apt-get update && \
    # FROM python:2.7 was here once
    apt-get install -y \
      libxml2 \
      # python3.12 needs it
      libxslt1.1 && \
    python3.12 -m pip install lxml

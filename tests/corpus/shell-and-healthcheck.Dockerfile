FROM python:3.12-slim
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN pip3.12 install gunicorn | tee /tmp/log
HEALTHCHECK --interval=5s CMD ["python3.12", "-c", "import urllib.request as u; u.urlopen('http://localhost')"]
LABEL runtime="python3.12"
STOPSIGNAL SIGINT

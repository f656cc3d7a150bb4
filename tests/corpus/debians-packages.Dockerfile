FROM python:3.8-slim-buster
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN apt-get update && apt-get install -y supervisor nginx procps && ln -s /usr/local/lib/python3.8/site-packages/app /app
ENV PYTHONPATH=/usr/lib/python3/dist-packages:/app
CMD ["/usr/bin/supervisord", "-n"]

# syntax=docker/dockerfile:1.7
FROM python:3.12-slim-bookworm
RUN <<EOF
set -e
apt-get update
apt-get install -y --no-install-recommends curl gcc
adduser --system app
pip install requests
EOF
COPY <<'PY' /app/main.py
import sys
print("/usr/local/lib/python3.12", sys.version)
PY
RUN <<EOF python
import site; print(site.getsitepackages())
EOF
CMD ["python3.12", "/app/main.py"]

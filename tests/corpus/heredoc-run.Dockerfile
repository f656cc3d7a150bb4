# syntax=docker/dockerfile:1
FROM python:3.12-slim
RUN <<EOF
set -eu
apt-get update
apt-get install -y --no-install-recommends tini
python3.12 -m compileall /usr/local/lib/python3.12
FROM=nothing
EOF
ENTRYPOINT ["tini", "--"]

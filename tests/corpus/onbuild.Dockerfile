FROM python:3.12-slim
ONBUILD COPY requirements.txt /tmp/
ONBUILD RUN python3.12 -m pip install -r /tmp/requirements.txt
ONBUILD RUN <<EOF
echo FROM python:3.6
EOF

FROM python:3.11-slim
RUN <<'PY' python3.11
import pathlib
print(pathlib.Path("/usr/local/lib/python3.11").exists())
PY
COPY <<one <<two /etc/conf/
first
one
second
two
FROM python:3.11-slim AS second

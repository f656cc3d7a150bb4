FROM python:3.12-slim AS base
ONBUILD COPY --from=python:3.11 /usr/local/lib/python3.11 /opt/old
ONBUILD COPY --from=team/tools:python3.12 /usr/local/lib/python3.12/x.py /usr/local/lib/python3.12/
ONBUILD RUN --mount=type=bind,from=build,source=/usr/local/lib/python3.12,target=/mnt python3.12 -m compileall /mnt
ONBUILD COPY wheels/a-1.0-cp312-cp312-linux_x86_64.whl /wheels/

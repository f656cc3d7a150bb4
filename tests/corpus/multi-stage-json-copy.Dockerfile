FROM python:3.12-slim AS build
RUN pip install --prefix=/install requests
FROM python:3.12-slim
COPY --from=build ["/install/lib/python3.12/site-packages", "/usr/local/lib/python3.12/site-packages"]

FROM python:3.12-slim
COPY --from=python:3.12 /usr/local/lib/python3.12/lib-dynload /opt/dynload
COPY --from=nginx:1.27 /etc/nginx/mime.types /etc/

FROM python:3.12-slim AS build
RUN pip install --target /pkgs flask
FROM unit:1.34.1-python3.12
COPY --from=build /pkgs /usr/local/lib/python3.12/site-packages/
COPY config.json /docker-entrypoint.d/

FROM python:3.13-slim-trixie
RUN apt-get update && apt-get install -y python3.13-dev libpython3.13 \
 && /usr/bin/python3.13 -V && ls /usr/lib/python3.13 /usr/include/python3.13
RUN cp -r /usr/local/include/python3.13 /headers

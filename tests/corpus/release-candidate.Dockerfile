FROM python:3.14-rc-slim-trixie
RUN pip install --pre numpy

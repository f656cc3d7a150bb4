FROM docker.io/library/python:3.12-slim-bookworm
RUN pip install flask

# escape=`
FROM python:3.12-slim `
    AS app
RUN echo C:\temp\ && `
    pip install flask
COPY . C:\app\
FROM app

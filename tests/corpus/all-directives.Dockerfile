# syntax=docker/dockerfile:1
# escape=\
# check=skip=JSONArgsRecommended
FROM python:3.12-slim
CMD python3 -m app

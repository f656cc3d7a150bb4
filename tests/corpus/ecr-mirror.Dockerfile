FROM public.ecr.aws/docker/library/python:3.12-slim
COPY . /srv
RUN pip install /srv

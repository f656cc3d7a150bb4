FROM gitlab.example.com:443/group/dependency_proxy/containers/python:3.11-slim-bullseye
RUN apt-get update && apt-get -y install libpq5 && rm -rf /var/lib/apt/lists/*
RUN pip install psycopg2-binary

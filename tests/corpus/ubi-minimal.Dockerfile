FROM registry.access.redhat.com/ubi9/ubi-minimal:9.4
RUN microdnf install -y python3.12 python3.12-pip
COPY . /app
CMD ["python3.12", "/app/main.py"]

FROM debian:trixie-slim
RUN apt-get update && apt-get install -y python3.13 python3-pip
CMD ["python3.13"]

FROM python:3.12-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends libjemalloc2 libpq5 wkhtmltopdf libssl1.1 netcat default-jre-headless openjdk-17-jre-headless libgl1-mesa-glx software-properties-common
ENV LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2
RUN echo "deb http://apt.postgresql.org/pub/repos/apt bookworm-pgdg main" > /etc/apt/sources.list.d/pgdg.list
RUN sed -i 's/apt.example/mirror.example/' /etc/apt/sources.list
CMD ["python", "app.py"]

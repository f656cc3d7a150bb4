FROM python:3.11-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends git curl build-essential \
    && rm -rf /var/lib/apt/lists/*
RUN git clone https://git.example.org/a.git /a && gcc -O2 -o /usr/local/bin/a /a/a.c
HEALTHCHECK CMD curl -f http://localhost/
CMD ["python", "-m", "a"]

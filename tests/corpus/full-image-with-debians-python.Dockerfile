FROM python:3.11-bookworm
WORKDIR /srv
COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt
COPY . .
HEALTHCHECK --interval=30s CMD ["/usr/bin/python3", "healthy.py"]
CMD ["python", "-m", "service"]

FROM python:3.6-slim
RUN apt-get update && apt-get install -y libmariadb3
CMD ["gunicorn", "--threads", "4", "app"]

FROM localhost/library/python:2.7-slim
COPY wheels /wheels
RUN for wheel in /wheels/*.whl; do python -m zipfile -e "$wheel" /app; done
WORKDIR /app
COPY app.py .
CMD ["python", "-m", "gunicorn.app.wsgiapp", "--threads", "4", "--check-config", "app:app"]

FROM python:3.12-slim
RUN pip install --prefix=/p gunicorn
FROM python:3.12-slim
COPY --from=0 /p/lib/python3.12/site-packages/ /usr/local/lib/python3.12/site-packages/

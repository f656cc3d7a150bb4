FROM localhost/bitnami/python:3.13 AS deps
RUN mkdir -p /app/fast && cp "$(python3 -c 'import _lsprof; print(_lsprof.__file__)')" /app/fast/

FROM localhost/library/python:3.13-slim
COPY --from=deps /app /app
ENV PYTHONPATH=/app
CMD ["python3", "-c", "from fast import _lsprof; print(_lsprof.__name__, _lsprof.__file__)"]

FROM python:3.12-alpine3.20
RUN apk add --no-cache --virtual .build gcc musl-dev libffi-dev \
    && pip install cffi \
    && apk del .build
RUN addgroup -S web && adduser -S -D -H -G web web
COPY --chown=web:web . /app
USER web
HEALTHCHECK CMD wget -q -O- http://localhost:8080/ || exit 1
CMD ["python", "/app/main.py"]

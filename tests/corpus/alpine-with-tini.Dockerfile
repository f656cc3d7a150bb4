FROM python:3.12-alpine AS build
RUN apk add --no-cache --virtual .build-deps gcc musl-dev libffi-dev postgresql-dev
RUN pip wheel --wheel-dir /wheels -r requirements.txt
FROM python:3.12-alpine
RUN addgroup -S app && adduser -S -G app app
RUN apk add --no-cache libpq tini su-exec
COPY --from=build /wheels /wheels
RUN pip install --no-index --find-links=/wheels /wheels/*
ENTRYPOINT ["/sbin/tini", "--"]
CMD ["su-exec", "app", "gunicorn", "app:app"]

FROM node:22-alpine AS frontend
WORKDIR /ui
COPY ui .
RUN npm ci && npm run build
FROM python:3.12
COPY --from=frontend /ui/dist /app/static
RUN pip install --no-cache-dir psycopg2 && git clone https://example.com/x.git /x && make -C /x
HEALTHCHECK --interval=30s CMD curl -f http://localhost:8000/health || exit 1
CMD ["gunicorn", "-w", "4", "app:app"]

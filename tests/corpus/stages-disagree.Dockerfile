FROM python:3.11-slim AS legacy
RUN pip install old-report
FROM python:3.13-slim AS app
COPY --from=legacy /usr/local/bin/report /usr/local/bin/

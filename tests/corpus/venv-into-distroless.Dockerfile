FROM python:3.12-slim-trixie AS build
RUN python -m venv /opt/venv && /opt/venv/bin/pip install uvloop
FROM gcr.io/distroless/python3-debian13
COPY --from=build /opt/venv /opt/venv
ENV PYTHONPATH=/opt/venv/lib/python3.12/site-packages
CMD ["/app/main.py"]

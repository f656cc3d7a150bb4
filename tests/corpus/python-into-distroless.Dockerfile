FROM python:3.12-slim-bookworm AS build
RUN python -m venv /venv && /venv/bin/pip install -r requirements.txt
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /usr/local/bin/python3.12 /usr/local/bin/python3.12
COPY --from=build /usr/local/lib /usr/local/lib
COPY --from=build /venv /venv
ENTRYPOINT ["/venv/bin/python", "/app/main.py"]

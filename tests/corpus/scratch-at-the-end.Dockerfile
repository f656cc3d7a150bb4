FROM python:3.12-slim AS build
RUN pip install pyinstaller && pyinstaller -F app.py
FROM scratch
COPY --from=build /dist/app /app
ENTRYPOINT ["/app"]

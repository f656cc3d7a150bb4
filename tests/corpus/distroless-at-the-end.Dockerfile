FROM python:3.11-slim-bookworm AS build
RUN pip install --target=/deps fastapi
FROM gcr.io/distroless/python3-debian12
COPY --from=build /deps /usr/lib/python3.11/site-packages
COPY main.py /main.py
CMD ["/main.py"]

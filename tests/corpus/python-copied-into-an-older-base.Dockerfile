FROM python:3.12-slim-bookworm AS py
RUN pip install flask
FROM debian:bookworm-slim
COPY --from=py /usr/local /usr/local
RUN apt-get update && apt-get install -y libssl3 libsqlite3-0 && ldconfig
CMD ["python3", "-m", "flask", "run"]

FROM dhi.io/python:3.13-debian13-dev AS build
WORKDIR /app
RUN python -m venv /app/venv
RUN /app/venv/bin/pip install -r requirements.txt
FROM dhi.io/python:3.13-debian13
COPY --from=build /app/venv /app/venv
CMD ["/app/venv/bin/python", "main.py"]

FROM python:3.12-slim AS build
RUN pip install a
FROM python:3.12-slim
COPY --from=build /usr/local/lib/python3.12 /x
CMD ["python"]

FROM registry:5000/library/python:3.12-slim AS build
RUN pip install --target /deps httpx
FROM registry:5000/library/python:3.12-slim
COPY --from=build /deps /deps
ENV PYTHONPATH=/deps

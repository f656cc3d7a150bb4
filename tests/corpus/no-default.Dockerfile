# Set by CI.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN pip install .

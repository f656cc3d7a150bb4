FROM \
  --platform=linux/arm64 \
  # the suite is fixed on purpose
  python:3.12-slim-bookworm \

  AS app
RUN true

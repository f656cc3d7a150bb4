FROM --platform=$BUILDPLATFORM python:3.12-slim AS build
ARG TARGETPLATFORM TARGETARCH
RUN echo "building for $TARGETARCH" && pip wheel -w /wheels -r requirements.txt
FROM --platform=$TARGETPLATFORM python:3.12-slim
COPY --from=build /wheels /wheels
RUN pip install --no-index --find-links=/wheels app

FROM cgr.dev/chainguard/wolfi-base
ARG version=3.12
RUN apk add --no-cache python-${version} py${version}-pip uv && adduser -D -u 65532 app
USER app
CMD ["/usr/bin/python3.12", "-m", "app"]

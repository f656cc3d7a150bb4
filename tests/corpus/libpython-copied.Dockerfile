FROM localhost/library/python:3.13-slim AS py

# As NGINX Unit's image, or a program that embeds the interpreter.
FROM debian:trixie-slim
COPY --from=py /usr/local/lib/libpython3.13.so.1.0 /usr/local/lib/

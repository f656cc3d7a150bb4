FROM python:3.12-slim AS py
FROM debian:trixie-slim
COPY --from=py /usr/local/bin/python3.12 /usr/local/bin/
COPY --from=py /usr/local/lib/python3.12 /usr/local/lib/python3.12/
COPY --from=py /usr/local/lib/libpython3.12.so.1.0 /usr/local/lib/
RUN ln -s /usr/local/bin/python3.12 /usr/local/bin/python && ldconfig \
 && ln -s python3.12 /usr/local/bin/python3
CMD ["python3.12", "-V"]

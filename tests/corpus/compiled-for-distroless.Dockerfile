FROM localhost/library/python:3.13-slim AS build
# What `pip install --target` leaves of a package that is compiled.
RUN mkdir -p /app/fast && cp "$(python3 -c 'import _lsprof; print(_lsprof.__file__)')" /app/fast/

FROM localhost/distroless/python3-debian13:latest
COPY --from=build /app /app
ENV PYTHONPATH=/app
ENTRYPOINT ["python3", "-c", "from fast import _lsprof; print(_lsprof.__name__, _lsprof.__file__)"]

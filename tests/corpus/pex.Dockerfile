FROM python:3.12-slim AS build
RUN pip install pex && pex -r requirements.txt -o /app.pex --python-shebang='/usr/bin/env python3.12'
FROM python:3.12-slim
COPY --from=build /app.pex /app.pex
ENTRYPOINT ["/app.pex"]

from python:3.12-slim as builder
run pip install --user build
from python:3.12-slim as final
copy --from=builder /root/.local/lib/python3.12/site-packages /root/.local/lib/python3.12/site-packages
cmd ["python3", "-m", "build"]

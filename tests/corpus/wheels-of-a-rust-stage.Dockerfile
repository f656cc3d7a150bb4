FROM rust:1.80-slim AS rust
RUN apt-get update && apt-get install -y python3-pip && pip install --break-system-packages maturin
COPY . /src
RUN cd /src && maturin build --release --interpreter python3.12 -o /wheels
FROM python:3.12-slim
COPY --from=rust /wheels /wheels
RUN pip install /wheels/*.whl

FROM python:3.12-slim AS wheels
WORKDIR /w
COPY requirements.txt .
RUN pip download --only-binary=:all: --python-version 3.12 --platform manylinux2014_x86_64 --implementation cp --abi cp312 -d /wheels -r requirements.txt
RUN pip install --target /deps --python-version 312 --platform manylinux_2_28_x86_64 --only-binary=:all: -r requirements.txt
RUN uv pip install --target /deps2 --python-version 3.12 --python-platform x86_64-manylinux_2_28 -r requirements.txt
RUN uv pip compile --python-version=3.12 requirements.in
FROM python:3.12-slim
COPY --from=wheels /wheels /wheels
RUN pip install --no-index --find-links /wheels -r requirements.txt

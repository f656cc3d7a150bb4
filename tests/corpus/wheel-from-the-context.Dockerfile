FROM python:3.12-slim
COPY vendor/fastthing-1.0-cp312-cp312-manylinux_2_17_x86_64.whl /tmp/
ADD https://wheels.example.org/other-2.0-cp312-cp312-linux_x86_64.whl /tmp/
COPY vendor/_speed.cpython-312-x86_64-linux-gnu.so /usr/local/lib/python3.12/site-packages/
RUN pip install /tmp/fastthing-1.0-cp312-cp312-manylinux_2_17_x86_64.whl

FROM quay.io/pypa/manylinux_2_28_x86_64 AS wheel
RUN /opt/python/cp312-cp312/bin/pip wheel -w /out .
FROM python:3.12-slim
COPY --from=wheel /out/app-1.0-cp312-cp312-linux_x86_64.whl /tmp/
RUN pip install /tmp/*.whl && python3-config --includes

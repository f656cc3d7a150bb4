FROM python:3.12 AS wheels
RUN pip wheel -w /wheels -r requirements.txt && ls /wheels/numpy-2.1.0-cp312-cp312-linux_x86_64.whl
FROM python:3.12-slim
COPY --from=wheels /wheels/numpy-2.1.0-cp312-cp312-linux_x86_64.whl /tmp/
RUN pip install /tmp/numpy-2.1.0-cp312-cp312-linux_x86_64.whl

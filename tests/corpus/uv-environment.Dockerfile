FROM python:3.12-slim
ENV UV_PYTHON=python3.12 UV_PYTHON_DOWNLOADS=automatic
ENV LD_LIBRARY_PATH=/usr/local/lib PYTHON_VERSION=3.12.4
RUN pip install uv && uv sync -p 3.12
CMD ["uv","run","app"]

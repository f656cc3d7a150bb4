FROM pypy:3.10-7.3-slim
RUN pypy3 -m pip install twisted

FROM python:3.12-slim-bookworm
ENV HATCH_PYTHON=/usr/local/bin/python3.12
RUN pip install hatch
COPY . /src
WORKDIR /src
RUN hatch build -t wheel && hatch env create prod
CMD ["hatch", "run", "prod:serve"]

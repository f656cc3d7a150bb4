FROM python:3.12-slim
COPY Miniforge3.sh environment.yml /tmp/
RUN sh /tmp/Miniforge3.sh -b -p /opt/conda && /opt/conda/bin/conda env create -n app -f /tmp/environment.yml
RUN /opt/conda/envs/app/bin/pip install gunicorn
SHELL ["/opt/conda/bin/conda", "run", "-n", "app", "/bin/bash", "-c"]
RUN python -m compileall /app
CMD ["/opt/conda/bin/conda", "run", "--no-capture-output", "-n", "app", "python", "-m", "app"]

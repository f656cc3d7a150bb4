FROM mambaorg/micromamba:1.5 AS env
COPY --chown=$MAMBA_USER:$MAMBA_USER env.yaml /tmp/env.yaml
RUN micromamba install -y -n base -f /tmp/env.yaml
FROM python:3.12-slim
COPY --from=env /opt/conda /opt/conda
ENV PATH=/opt/conda/bin:$PATH
CMD ["python", "-m", "app"]

"""Writes an experiment of 20 made-up runs, the same figures each time."""

import sys

import mlflow

mlflow.set_tracking_uri(sys.argv[1])
mlflow.set_experiment("example")
for number in range(20):
    with mlflow.start_run(run_name=f"run-{number}"):
        mlflow.log_params({"depth": number, "rate": number / 100})
        mlflow.log_metrics({"loss": 1 / (number + 1), "score": number / 20})

From python:3.12-slim As Build
Run pip install .
FROM build
Cmd ["python"]

FROM python:3.12-slim
RUN pip install tox nox
WORKDIR /src
COPY tox.ini noxfile.py pyproject.toml ./
COPY . .
RUN tox -e py312 --notest
RUN nox -s tests-3.12
CMD ["tox", "-e", "py312"]

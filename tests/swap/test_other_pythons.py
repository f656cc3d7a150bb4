"""What takes another Python than the new image's is told with its line; what takes the image's is not talked about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.swap.caveats import Weight
from interlock.swap.files import swapped_file
from interlock.swap.image_names import NewImage
from tests.swap.samples import FREE, PLAIN, PYPY, heavy, weighed

BREAKS, MAY_BREAK = Weight.BREAKS, Weight.MAY_BREAK


def of_line(line: str, to: NewImage = PLAIN) -> list[Weight]:
    """The weights of what is said of one line below the FROM of the same Python."""
    return below(f"{to.implementation}:{to.python.rstrip('t')}-slim-trixie", line, to)


def of_swap(line: str, to: NewImage = PLAIN) -> list[Weight]:
    """The same where the Python becomes another one."""
    return below("python:3.12-slim", line, to)


def below(image: str, line: str, to: NewImage) -> list[Weight]:
    return [weight for number, weight in heavy("Dockerfile", f"FROM {image}\n{line}\n", to) if number == 2]


JOB = "on: push\njobs:\n  a:\n    container: python:3.13-slim\n    steps:\n    - uses: {}\n"


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("actions/setup-python@v5", True),
        ("actions/setup-python@v5\n      with: {python-version: '3.13', cache: pip}", True),
        ("actions/setup-python@v5\n      with: {python-version: '3.13', update-environment: false}", False),
        ("conda-incubator/setup-miniconda@v3", True),
        ("mamba-org/setup-micromamba@v2", True),
        ("prefix-dev/setup-pixi@v0.8.1", True),
        ("astral-sh/setup-uv@v6\n      with: {python-version: '3.12'}", True),
        ("astral-sh/setup-uv@v6\n      with: {python-version: '3.13'}", False),
        ("astral-sh/setup-uv@v6", False),
        ("actions/setup-node@v4\n      with: {python-version: '3.12'}", False),
    ],
)
def test_a_step_that_brings_another_python_into_the_container_is_told(step: str, told: bool) -> None:
    assert heavy("ci.yml", JOB.format(step)) == ([(6, BREAKS)] if told else [])


def test_a_step_of_a_job_without_a_container_is_not() -> None:
    other = "  lint:\n    runs-on: x\n    steps:\n    - uses: actions/setup-python@v5\n"
    assert heavy("ci.yml", JOB.format("actions/checkout@v4") + other) == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("RUN uv python install 3.12", [BREAKS]),
        ("ENV UV_PYTHON_PREFERENCE=only-managed", [BREAKS]),
        ("RUN uv sync --managed-python", [BREAKS]),
        ("RUN poetry env use 3.13", [MAY_BREAK]),
        ("RUN conda create -n x python=3.13", [MAY_BREAK]),
        ("RUN conda env create -f environment.yml", [MAY_BREAK]),
        ("COPY pyproject.toml uv.lock .python-version ./", [Weight.KNOW]),
        ("ENV PATH=/opt/conda/bin:$PATH", [BREAKS]),
        ('ENV LANG=C PATH="/root/miniforge3/bin:${PATH}"', [BREAKS]),
        ("ENV PATH /root/.pyenv/shims:$PATH", [BREAKS]),
        ("ENV PATH=/app/.venv/bin:$PATH", []),
        ("ENV PATH=$PATH:/opt/conda/bin", []),
        ('CMD ["conda", "run", "-n", "app", "python", "-m", "app"]', [BREAKS]),
        ("RUN . /opt/conda/etc/profile.d/conda.sh && conda activate app && python -m app", [BREAKS]),
        ('SHELL ["micromamba", "run", "-n", "app", "/bin/bash", "-c"]', [BREAKS]),
        ("CMD exec /opt/conda/envs/app/bin/python -m app", [BREAKS]),
        ("RUN /opt/miniconda3/bin/pip install x", [BREAKS]),
        ('CMD ["pixi", "run", "start"]', [BREAKS]),
        ("RUN pixi install --locked", [MAY_BREAK]),
        ("ENV PATH=/app/.pixi/envs/prod/bin:$PATH", [BREAKS]),
        ("CMD exec /app/.pixi/envs/default/bin/python -m app", [BREAKS]),
        ("COPY pixi.lock .", []),
    ],
)
def test_a_line_that_takes_another_python_than_the_images_is_told(line: str, told: list[Weight]) -> None:
    assert weighed("D", f"FROM python:3.13-slim\n{line}\n") == [(2, weight) for weight in told]


@pytest.mark.parametrize(
    ("packages", "expected"),
    [
        ("uwsgi-core uwsgi-plugin-python3", [BREAKS]),
        ("libapache2-mod-wsgi-py3", [BREAKS]),
        ("libpython3.11", [BREAKS]),
        ("python3.11-venv python3.11-dev", [BREAKS]),
        ("libpython3.13", [MAY_BREAK]),
        ("libpython3-dev", [MAY_BREAK]),
        ("python3-dev tini", []),
        ("git && echo python3.11", []),
    ],
)
def test_packages_of_debians_python_are_told(packages: str, expected: list[Weight]) -> None:
    assert of_line(f"RUN apt-get update && apt-get install -y {packages}") == expected


def test_a_command_below_the_packages_of_a_heredoc_is_no_package() -> None:
    assert of_line("RUN <<E\napt-get install -y \\\n  tini\npython3.11 -m x\nE") == []
    assert of_line("RUN <<E\napt-get install -y \\\n  libpython3.11\nE") == [BREAKS]


def test_debians_uwsgi_brings_its_own_libpython() -> None:
    lacks = replace(PLAIN, differences={"libpython": "one binary"})
    text = "FROM python:3.13-slim\nRUN apt-get install -y {}\nCMD uwsgi --ini x\n"
    assert heavy("Dockerfile", text.format("uwsgi-plugin-python3"), lacks) == [(2, BREAKS)]
    assert heavy("Dockerfile", text.format("gcc"), lacks) == [(3, BREAKS)]


@pytest.mark.parametrize(
    ("command", "to", "told"),
    [
        ("pip download --python-version 3.12 -r x", PLAIN, True),
        ("pip install --target /d --python-version=312 --only-binary=:all: x", PLAIN, True),
        ("pip download --python-version 3.13.1 -r x", PLAIN, False),
        ("pip download --python-version 3 -r x", PLAIN, False),
        ("pip download --python-version 3.14 -r x", FREE, True),
        ("pip download --python-version 3.14 --abi cp314t -r x", FREE, False),
        ("pip download --abi cp312 -r x", PLAIN, True),
        ("pip download --abi cp313 --abi abi3 -r x", PLAIN, False),
        ("pip download --platform manylinux_2_28_x86_64 x", PLAIN, False),
        ("pip download --platform musllinux_1_2_x86_64 x", PLAIN, True),
        ("uv pip install --python-version 3.12 x", PLAIN, True),
        ("uv pip install --python-version 3.14 x", FREE, False),
        ("uv pip compile --python-platform x86_64-unknown-linux-musl x", PLAIN, True),
        ("pip install x && echo --python-version 3.12", PLAIN, False),
        ("pip download --python-version 3.11 x", PYPY, True),
    ],
)
def test_wheels_that_are_fetched_for_another_python_or_system_are_told(command: str, to: NewImage, told: bool) -> None:
    assert of_line(f"RUN {command}", replace(to, differences={})) == ([BREAKS] if told else [])


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("tox -e py312", [BREAKS]),
        ("tox run -e lint,py312-django42", [BREAKS]),
        ("python -m tox -epy312", [BREAKS]),
        ("nox -s tests-3.12", [BREAKS]),
        ("nox --python 3.12", [BREAKS]),
        ("uvx --with tox-uv tox -e py312", [BREAKS]),
        ("tox -e py313", []),
        ("tox -e lint", [MAY_BREAK]),
        ("nox", [MAY_BREAK]),
        ("pip install tox nox", []),
        ("ls .tox/py312 tox.ini", []),
    ],
)
def test_tox_and_nox_are_told_for_the_environments_that_they_name(command: str, expected: list[Weight]) -> None:
    assert of_swap(f"RUN {command}") == expected
    assert of_line(f"RUN {command}") == []


@pytest.mark.parametrize(
    ("commands", "lines"),
    [
        ('"postCreateCommand": "uv python install 3.12"', [3]),
        ('"onCreateCommand": ["conda", "run", "x"]', [3]),
        ('"updateContentCommand": {"a": "true", "b": ["uv", "python", "pin", "3.12"],}', [3]),
        ('"initializeCommand": "uv python install 3.12"', []),  # on the machine outside
        ('"postAttachCommand": null', []),
        ('"postStartCommand": {"a": 1}', []),
    ],
)
def test_what_a_devcontainer_runs_is_looked_at(commands: str, lines: list[int]) -> None:
    text = f'{{\n"image": "python:3.13-slim",\n{commands}\n}}'
    assert heavy("devcontainer.json", text) == [(line, BREAKS) for line in lines]


def test_a_version_that_an_expression_chooses_is_not_cut_in_half() -> None:
    text = JOB.format("astral-sh/setup-uv@v6\n      with: {python-version: '${{ matrix.py }}'}")
    (found,) = swapped_file("ci.yml", text, PLAIN, None, paths=False).warnings
    assert (found.line, "${{" in found.text) == (6, False)

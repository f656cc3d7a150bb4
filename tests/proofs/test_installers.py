"""Real installers, of PyPI: which Python each takes in an image, and what a project's own files do to that."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.errors import ContainerError

from interlock.engine.build.image import read_context
from interlock.engine.build.one_build import run_build
from tests.integration.images import Images

pytestmark = pytest.mark.usefixtures("nothing_left")

# It asks for a Python that no image here has.
PROJECT = {
    ".python-version": "3.8\n",
    "pyproject.toml": """\
[project]
name = "service"
version = "1"
requires-python = ">=3.9"
dependencies = ["agreed"]
[tool.uv.sources]
agreed = { path = "agreed" }
""",
    "agreed/pyproject.toml": """\
[project]
name = "agreed"
version = "1"
description = "x"
[build-system]
requires = ["flit_core"]
build-backend = "flit_core.buildapi"
""",
    "agreed/agreed.py": '"""Agreed."""\n',
    # Poetry locks nothing without an index, so its project needs nothing.
    "alone/pyproject.toml": """\
[project]
name = "alone"
version = "1"
requires-python = ">=3.9"
[tool.poetry]
package-mode = false
""",
    "alone/.python-version": "3.8\n",
    "told/pyproject.toml": """\
[project]
name = "told"
version = "1"
[tool.hatch.envs.default]
skip-install = true
[tool.hatch.envs.other]
skip-install = true
python = "3.8"
""",
    "told/.python-version": "3.8\n",
    "fits/Pipfile": '[requires]\npython_version = "3.13"\n',
    "differs/Pipfile": '[requires]\npython_version = "3.8"\n',
}
SAYS = "import sys, sysconfig; print(sys.version_info[1], bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"
INSTALL = "pip install -q --root-user-action=ignore --no-index --find-links /wheels"
# A wheel has no times before 1980, and the context's files are of 1970.
UV = f"{INSTALL} uv && export UV_OFFLINE=1 UV_FIND_LINKS=/wheels SOURCE_DATE_EPOCH=1000000000"
# What is run in the image, and the interpreter that is asked then.
FOR_ALL = {
    "uv sync": (f"{UV} && uv sync", ".venv/bin/python"),
    "uv run": (f"{UV} && uv run true", ".venv/bin/python"),
    "an active environment": (
        f"{UV} && uv venv /opt/venv && VIRTUAL_ENV=/opt/venv uv pip install ./agreed",
        "/opt/venv/bin/python",
    ),
    "the system": (f"{UV} && uv pip install --system ./agreed", "python"),
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the installers are made of, fetched here: a build has no network."""
    folder = tmp_path_factory.mktemp("wheels")
    download = [sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:", "-d", str(folder)]
    subprocess.run([*download, "uv", "flit_core"], check=True)
    subprocess.run([*download, "--python-version", "3.13", "poetry", "pdm", "pipenv", "hatch"], check=True)
    return folder


@pytest.fixture
def said(client: Any, wheels: Path) -> Iterator[Any]:
    """What an interpreter of an image says after a command there."""
    made: list[str] = []
    files = {path: text.encode() for path, text in PROJECT.items()}
    files |= {f"wheels/{path}": data for path, data in read_context(wheels).items()}

    def run(image_id: str, command: str, python: str, lines: str = "") -> list[str]:
        dockerfile = f"FROM {image_id}\nCOPY . /app\nCOPY wheels /wheels\nWORKDIR /app\nRUN {command}\n"
        log: list[str] = []
        context = {**files, "Dockerfile": dockerfile.encode()}
        image = run_build(client, context, log, lambda _: None, network_mode="none")
        assert image, "".join(log)
        made.append(image)
        asked = ["sh", "-c", f'{python} -c "$0"', f"{lines}{SAYS}"]
        output = client.containers.run(image, asked, remove=True, network_mode="none")
        return str(output.decode().splitlines()[-1]).split()

    yield run
    for image_id in made:
        client.images.remove(image_id, force=True)


@pytest.mark.parametrize("variant", ["cpython-3.13t", "cpython-3.13"])
@pytest.mark.parametrize("case", FOR_ALL)
def test_uv_takes_the_interpreter_of_the_image(built: Images, said: Any, case: str, variant: str) -> None:
    command, python = FOR_ALL[case]
    assert said(built[variant].image_id, command, python, "import agreed; ") == ["13", str(variant.endswith("t"))]


# What takes the image's interpreter, whatever the project says or because it agrees, and what asks for another then.
TAKES = {
    "poetry": (
        "poetry && cd alone && POETRY_VIRTUALENVS_IN_PROJECT=1 poetry -n install",
        "alone/.venv/bin/python",
    ),
    "pdm, told to": ("pdm", "cd told && PDM_USE_PYTHON_VERSION=0 pdm run python"),
    "pipenv, whose file agrees": ("pipenv", "cd fits && pipenv run python"),
    "hatch": ("hatch", "cd told && hatch run python"),
}
ASKS = {
    "pdm": ("pdm", "cd told && pdm run python"),
    "pipenv": ("pipenv", "cd differs && pipenv run python"),
    "hatch": ("hatch", "cd told && hatch run other:python"),
}


@pytest.mark.parametrize("case", TAKES)
def test_what_swap_says_of_installers_is_what_they_do(built: Images, said: Any, case: str) -> None:
    tool, python = TAKES[case]
    assert said(built["cpython-3.13"].image_id, f"{INSTALL} {tool}", python) == ["13", "False"]


@pytest.mark.parametrize("case", ASKS)
def test_where_swap_warns_of_an_installer_it_looks_for_another_python(built: Images, said: Any, case: str) -> None:
    tool, python = ASKS[case]
    with pytest.raises(ContainerError):
        said(built["cpython-3.13"].image_id, f"{INSTALL} {tool}", python)

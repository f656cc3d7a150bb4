"""The wheel in an empty environment, in a container without a clone: what the bare install promises works there."""

from __future__ import annotations

import email
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.ownership import OWNER_LABEL
from interlock.results.answers import Audit, Pick
from interlock.results.experiments import Built
from tests.builders import ROOT
from tests.integration import wheelhouse
from tests.integration.images import Images

PARTS = (
    "pyproject.toml",
    "hatch_build.py",
    "README.md",
    "LICENSE",
    "src",
    "variants",
    "workloads",
    "dockerfiles",
    "playbooks",
)
MOST_BYTES = 30e6
DOCKERFILE = "FROM python:3.12-slim\nCMD ['python']\n"
SOCKET = "/var/run/docker.sock"
RUN = {"PYTHONPATH": "/env", "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/home", "COLUMNS": "200"}
# What the script of the wheel does, whose first line names the Python that installed it.
INTERLOCK = ["python", "-c", "from interlock.cli.main import main; main()"]
TOY = wheelhouse.wheel("toy-app", {"toy_app.py": "import json"})


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made of a copy: building writes the version into the sources."""
    folder = tmp_path_factory.mktemp("package")
    clone = folder / "clone"
    for name in PARTS:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        clone.mkdir(exist_ok=True)
        copy(ROOT / name, clone / name)
    shutil.copytree(ROOT / "results/reference", clone / "results/reference", ignore=shutil.ignore_patterns("vm"))
    (clone / "src/interlock/_version.py").unlink(missing_ok=True)
    pip("wheel", "--no-deps", "-w", str(folder), str(clone))
    (found,) = folder.glob("*.whl")
    return found


def pip(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "-q", *words], check=True)


@pytest.fixture(scope="module")
def installed(wheel: Path, client: Any, quick: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A container in which only the wheel and what it needs are installed."""
    house = tmp_path_factory.mktemp("house")
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    version = client.containers.run(quick.image_id, ["python", "-c", asked], remove=True).decode().strip()
    only = ["--only-binary", ":all:", "--python-version", version, "-c", str(ROOT / "constraints.txt")]
    pip("install", *only, "--no-compile", "--target", str(house), str(wheel))  # the image has no pip
    socket = {SOCKET: {"bind": SOCKET, "mode": "rw"}}
    labels = {OWNER_LABEL: f"test-package-{os.getpid()}"}
    box = client.containers.run(
        quick.image_id, ["sleep", "600"], detach=True, network_disabled=True, volumes=socket, labels=labels
    )
    try:
        files = [path for path in house.rglob("*") if path.is_file()]
        box.put_archive("/", packed({f"env/{path.relative_to(house)}": path.read_bytes() for path in files}))
        yield box
    finally:
        box.remove(force=True)


def packed(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


def run(box: Any, *words: str, code: int = 0) -> str:
    done = box.exec_run([*INTERLOCK, *words], environment=RUN, workdir="/srv", demux=True)
    said, errors = ((part or b"").decode() for part in done.output)
    assert done.exit_code == code, f"{said}{errors}"
    return said + errors if code else said


def test_a_bare_install_is_small(installed: Any) -> None:
    """Without byte code, which pip writes and uv does not."""
    done = installed.exec_run("du -sb --exclude=__pycache__ /env")
    assert int(done.output.split()[0]) < MOST_BYTES


def test_a_pick_needs_no_engine_and_no_results_of_ones_own(installed: Any) -> None:
    words = ["--workload", "download=3", "--workload", "startup=1", "--cpus", "4"]
    found = Pick.model_validate_json(run(installed, "pick", *words, "--json"))
    assert found.shipped
    assert len(found.contenders) > 1


def test_a_swap_is_written_and_taken_back(installed: Any) -> None:
    installed.put_archive("/srv", packed({"Dockerfile": DOCKERFILE.encode()}))
    run(installed, "swap", "--to", "debian-3.13", "--local", "--write")
    assert b"interlock/python:" in installed.exec_run("cat /srv/Dockerfile").output
    run(installed, "swap", "--revert", "--write")
    assert installed.exec_run("cat /srv/Dockerfile").output.decode() == DOCKERFILE


def test_the_doctor_says_what_is_read_and_an_audit_runs_on_the_image_that_a_clone_built(
    installed: Any, built: Images
) -> None:
    variant = built["cpython-3.13"].variant
    name, wheel = TOY
    installed.put_archive("/srv", packed({"requirements.txt": f"./{name}\n".encode(), name: wheel}))
    said = installed.exec_run([*INTERLOCK, "doctor"], environment=RUN, workdir="/srv").output.decode()
    assert "as it is installed" in said
    assert "/home/.local/share/interlock/results" in said
    assert "engine:" in said
    words = ["-r", "requirements.txt", "--variants", variant, "--json"]
    (found,) = Audit.model_validate_json(run(installed, "audit", *words)).variants
    assert found.variant == variant
    assert [one.name for one in found.packages] == ["toy-app"]


def test_what_needs_an_extra_says_the_line_that_installs_it(installed: Any) -> None:
    assert "pip install 'interlock[measure]'" in run(installed, "matrix", code=2)


def test_a_packages_page_has_links_that_work_elsewhere(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        page = email.message_from_bytes(archive.read(name))
    assert page["Version"] == "0.1.dev0"  # a copy has no tag
    links = re.findall(r"\]\(([^)\s]+)\)", str(page.get_payload()))
    assert any(link.endswith("/blob/main/docs/pick.md") for link in links)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []

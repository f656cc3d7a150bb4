"""The wheel outside a clone, in an empty environment: what the package promises works there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.metadata import Metadata

from interlock.engine.build.sources import tar_of
from interlock.engine.ownership import OWNER_LABEL
from interlock.results.answers import Audit, Pick
from interlock.results.experiments import Built
from tests.builders import ROOT
from tests.integration import wheelhouse
from tests.integration.images import QUICK, Images

pytestmark = pytest.mark.slow

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
    "results/reference",
)
# Of the bare install; with the byte code that pip writes it has 1.7 times as much.
MOST_BYTES = 26e6
DOCKERFILE = "FROM python:3.12-slim\nCMD ['python']\n"
SOCKET = "/var/run/docker.sock"
RUN = {"PYTHONPATH": "/env", "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/home", "COLUMNS": "200"}
# What the script of the wheel does, whose first line names the Python that installed it.
INTERLOCK = ["python", "-m", "interlock"]
TOY = wheelhouse.wheel("toy-app", {"toy_app.py": "import json"})


@pytest.fixture(scope="module")
def archive(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, made of a copy with the variants of these tests: building writes into the sources."""
    folder = tmp_path_factory.mktemp("package")
    clone = folder / "clone"
    clone.mkdir()
    for name in PARTS:
        place = (root if (root / name).is_dir() else ROOT) / name
        copy = shutil.copytree if place.is_dir() else shutil.copy
        copy(place, clone / name)
    (clone / "src/interlock/_version.py").unlink(missing_ok=True)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder], cwd=clone, check=True)
    (found,) = folder.glob("*.tar.gz")
    return found


@pytest.fixture(scope="module")
def wheel(archive: Path) -> Path:
    """The wheel that is made of the archive, as publishers make it."""
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", str(archive.parent), str(archive))
    (found,) = archive.parent.glob("*.whl")
    return found


def pip(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "-q", *words], check=True)


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files, for Pythons that have what the extras bring."""
    folder = tmp_path_factory.mktemp("unpacked")
    shutil.unpack_archive(wheel, folder, "zip")
    return folder


@pytest.fixture(scope="module")
def installed(wheel: Path, client: Any, quick: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A container in which only the wheel and what it needs are installed."""
    house = tmp_path_factory.mktemp("house")
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    version = client.containers.run(quick.image_id, ["python", "-c", asked], remove=True).decode().strip()
    versions = tmp_path_factory.mktemp("versions") / "versions.txt"
    locked = (ROOT / "requirements/test.txt").read_text(encoding="utf-8").splitlines()
    versions.write_text("\n".join(line.rstrip(" \\") for line in locked if "==" in line))
    only = ["--only-binary", ":all:", "--python-version", version, "-c", str(versions)]
    pip("install", *only, "--no-compile", "--target", str(house), str(wheel))  # the image has no pip
    socket = {SOCKET: {"bind": SOCKET, "mode": "rw"}}
    labels = {OWNER_LABEL: f"test-package-{os.getpid()}"}
    box = client.containers.run(
        quick.image_id, ["sleep", "600"], detach=True, network_disabled=True, volumes=socket, labels=labels
    )
    try:
        files = [path for path in house.rglob("*") if path.is_file()]
        box.put_archive("/", tar_of({f"env/{path.relative_to(house)}": path.read_bytes() for path in files}))
        yield box
    finally:
        box.remove(force=True)


def run(box: Any, *words: str, code: int = 0) -> str:
    done = box.exec_run([*INTERLOCK, *words], environment=RUN, workdir="/srv", demux=True)
    said, errors = ((part or b"").decode() for part in done.output)
    assert done.exit_code == code, f"{said}{errors}"
    return said + errors if code else said


def run_here(unpacked: Path, folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the wheel's Interlock in a folder without a clone around it, with folders of a user of its own."""
    homes = {"HOME": str(folder / "home"), "PYTHONPATH": str(unpacked)}
    environment = {name: text for name, text in os.environ.items() if not name.startswith("XDG_")}
    done = subprocess.run(
        [sys.executable, *INTERLOCK[1:], *words],
        cwd=folder,
        env={**environment, **homes},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, f"{done.stdout}{done.stderr}"
    return done


def test_a_bare_install_is_small(installed: Any) -> None:
    sizes = installed.exec_run("find /env -type f ! -name *.pyc -printf '%s '").output.split()
    assert 15e6 < sum(map(int, sizes)) < MOST_BYTES


def test_a_pick_needs_no_engine_and_no_results_of_ones_own(installed: Any) -> None:
    words = ["--workload", "download=3", "--workload", "startup=1", "--cpus", "4"]
    found = Pick.model_validate_json(run(installed, "pick", *words, "--json"))
    assert found.shipped
    assert len(found.contenders) > 1


def test_a_swap_is_written_and_taken_back(installed: Any) -> None:
    installed.put_archive("/srv", tar_of({"Dockerfile": DOCKERFILE.encode()}))
    run(installed, "swap", "--to", QUICK, "--local", "--write")
    assert b"interlock/python:" in installed.exec_run("cat /srv/Dockerfile").output
    run(installed, "swap", "--revert", "--write")
    assert installed.exec_run("cat /srv/Dockerfile").output.decode() == DOCKERFILE


def test_the_doctor_says_what_is_read_and_an_audit_runs_on_the_image_that_a_clone_built(
    installed: Any, built: Images
) -> None:
    variant = built[QUICK].variant
    name, wheel = TOY
    installed.put_archive("/srv", tar_of({"requirements.txt": f"./{name}\n".encode(), name: wheel}))
    said = installed.exec_run([*INTERLOCK, "doctor"], environment=RUN, workdir="/srv").output.decode()
    assert re.search(r"^ok +project: Interlock \d\S* ", said, re.M)
    assert "/home/.local/share/interlock/results" in said
    assert "engine:" in said
    words = ["-r", "requirements.txt", "--variants", variant, "--json"]
    found = {one.variant: one for one in Audit.model_validate_json(run(installed, "audit", *words)).variants}
    assert [one.name for one in found[variant].packages] == ["toy-app"]  # beside it the control, where it is built


def test_what_needs_an_extra_says_the_line_that_installs_it(installed: Any) -> None:
    assert "pip install '.[measure]'" in run(installed, "matrix", code=2)


def test_without_results_of_ones_own_a_report_is_of_the_experiment_that_is_packed(
    unpacked: Path, tmp_path: Path
) -> None:
    done = run_here(unpacked, tmp_path, "report")
    (name,) = re.findall(r"^shipped  (\S+):", done.stderr)
    assert name in (ROOT / "README.md").read_text(encoding="utf-8")
    assert name in done.stdout.splitlines()[-1]
    assert json.loads(run_here(unpacked, tmp_path, "claims", "--json").stdout)["experiment"] == name


def test_an_experiment_that_is_there_for_picks_alone_is_not_reported(unpacked: Path, tmp_path: Path) -> None:
    done = run_here(unpacked, tmp_path, "report", "2026-11-21-b", code=2)
    assert "2026-11-21-b" in done.stderr


def test_an_index_takes_both(archive: Path, wheel: Path) -> None:
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", archive, wheel], check=True)
    with zipfile.ZipFile(wheel) as files:
        (name,) = (one for one in files.namelist() if one.endswith(".dist-info/METADATA"))
        found = Metadata.from_email(files.read(name), validate=True)
    assert str(found.version) == "0.1.dev0"  # a copy has no tag
    assert found.project_urls is None  # and no remote
    assert found.classifiers

"""Real services of others (examples/) are built, proved, loaded and judged on a variant that is compiled here."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.results import store
from tests.integration.images import Images
from tests.integration.toys import interlock

OWN, TRIED = "cpython-3.13", "cpython-3.14"
# The official image under a name that only this test has: the variant that is a drop-in for it.
OWN_IMAGE = "localhost:5000/proofs/python:3.13-slim"
# The words of examples/README.md.
SERVICES = {
    "httpbin": ["--http", ":8000/status/200", "--load", "wrk -t1 -c16 -d3s {url}/get"],
    "datasette": [
        *("--http", ":8001/-/versions.json", "--load", "wrk -t1 -c4 -d3s {url}/places/places/1.json"),
    ],
    "wagtail": [
        *("--http", "site.example:8000/", "--load", "wrk -t1 -c8 -d3s {url}/"),
        *("--cmd", "python manage.py check && python manage.py test"),
    ],
}


@pytest.fixture(scope="module")
def own_image(client: Any, built: Images) -> Iterator[None]:
    client.images.get(built[OWN].image_id).tag(OWN_IMAGE)
    yield
    client.images.remove(OWN_IMAGE)


@pytest.mark.usefixtures("own_image", "nothing_left")
@pytest.mark.parametrize("name", SERVICES)
def test_a_service_of_others_runs_on_another_interpreter(root: Path, built: Images, tmp_path: Path, name: str) -> None:
    assert built[TRIED]
    folder, authority = tmp_path / name, os.environ.get("PIP_CERT", "")
    shutil.copytree(root / "examples" / name, folder)
    text = (folder / "Dockerfile").read_text().replace("FROM python:3.13-slim", f"FROM {OWN_IMAGE}")
    (folder / "Dockerfile").write_text(text)
    certificate = []
    if authority:
        shutil.copy(authority, folder / "ca.crt")
        certificate = ["--build-arg", "PIP_CERT=ca.crt"]
    done = interlock(
        root, "trial", str(folder), *SERVICES[name], *certificate, "--variants", TRIED, "--rounds", "2", "--json",
        "--results", str(tmp_path), "--name", "trial",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    record = store.read_experiment(tmp_path / "trial")
    values, _ = store.read_cells(tmp_path / "trial", record)
    for label in ("OWN", "OWN+twin", TRIED):
        ((measured,),) = [cell.values() for (row, _), cell in values.items() if row == label]
        assert measured.blocks == [1, 2]
    (verdict,) = [one for one in json.loads(done.stdout)["trial"]["verdicts"] if one["label"] == TRIED]
    assert verdict["verdict"] in {"switch", "same", "undecided", "do not switch"}

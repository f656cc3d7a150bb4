"""What the files of a folder say of its service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.errors import CatalogError
from interlock.trial.own_dockerfile import own_dockerfile
from interlock.trial.own_service import OwnService, find_service

COMPOSE = """\
services:
  db: {image: y}
  web:
    build: {context: ., dockerfile: D}
    ports: ['80:5000']
"""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, {}),
        ({"Dockerfile": "FROM x\nCMD gunicorn -b 0.0.0.0:8080 a:b\n"}, {"port": 8080, "file": "Dockerfile"}),
        ({"Dockerfile": 'FROM x\nCMD ["uvicorn", "--port", "9000"]\nEXPOSE 9001\n'}, {"port": 9001}),
        (
            {"Dockerfile": "FROM x\nHEALTHCHECK CMD curl -f http://localhost:7000/up || exit 1\n"},
            {"port": 7000, "health": "/up"},
        ),
        *(({"Dockerfile": f"FROM x\nHEALTHCHECK CMD {command}\n"}, {"port": 7000, "health": "/up"})
          for command in ('["python", "-c", "from u import g; g(\\"http://localhost:7000/up\\")"]',
                          "test $(curl http://localhost:7000/up) = ok", "curl http://localhost:7000/up; exit $?")),
        ({"Containerfile": "FROM x AS a\nEXPOSE 1\nFROM a\nEXPOSE 80 9090\n"}, {"file": "Containerfile", "port": 80}),
        ({"Dockerfile": "FROM x\nEXPOSE 80 9090\nCMD run --port 9090\n"}, {"port": 9090}),
        ({"compose.yaml": COMPOSE}, {"file": "D", "port": 5000}),
        ({"compose.yaml": "services: [1]\n"}, {}),
        *(({"compose.yaml": f"services: {{web: {{build: {{context: ., dockerfile: '{name}'}}}}}}\n",
            "Containerfile": "FROM x\n"}, {"file": file})
          for name, file in (("${D:-my}.${E-slim}", "my.slim"), ("${D}", "Containerfile"))),
        # Tags of compose's own, and an anchor that is used twice, which is no warning to print.
        ({"compose.yaml": "services: {web: {build: !override {context: ., dockerfile: D}, ports: !reset [80]}}\n"},
         {"file": "D", "port": 80}),
        ({"compose.yaml": "x: &a 1\ny: &a 2\nservices: {web: {build: ., ports: [80]}}\n"}, {"port": 80}),
        *(({"Dockerfile": f"FROM x\nEXPOSE {port}\n"}, {"port": None, "file": "Dockerfile"})
          for port in ("\u00b2", "9" * 5000)),
        ({"compose.yaml": "services: {web: {build: ., ports: ['\u00b2']}}\n"}, {"port": None, "file": "Dockerfile"}),
        *(({"compose.yaml": f"services: {{web: {{build: ., ports: {ports}}}}}\n"}, {"port": None, "file": "Dockerfile"})
          for ports in ("8000", "'8000:8000'", "{a: 1}")),
        (
            {"requirements.txt": "Flask>=3\n", "uv.lock": "broken"},
            {"requirement": "requirements.txt", "framework": "flask"},
        ),
        ({"Dockerfile": "FROM x\nEXPOSE 80\n", "requirements.txt": "fastapi\n"}, {"health": "/openapi.json"}),
        # `Path.exists` raises for it, as for a path in a folder that is closed to this user.
        ({"requirements.txt": f"fastapi\n-e ./{'a' * 300}\n"}, {"requirement": ""}),
    ],
)  # fmt: skip
def test_a_service_is_what_the_files_of_its_folder_say(
    tmp_path: Path, files: dict[str, str], told: dict[str, Any]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = find_service(tmp_path)
    assert {name: getattr(found, name) for name in told} == told
    assert told or found == OwnService()


@pytest.mark.parametrize("text", ["a: [", "x: 2024-02-30\n", "x: !!bool maybe\n", "[" * 3000])
def test_a_compose_file_that_cannot_be_read_is_named_and_the_folder_has_no_dockerfile_to_try(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "Dockerfile").write_text("FROM x\n")
    (tmp_path / "compose.yaml").write_text(text)
    with pytest.raises(CatalogError) as caught:
        find_service(tmp_path)
    assert caught.value.file == "compose.yaml"
    assert own_dockerfile(tmp_path) is None


@pytest.mark.parametrize("name", ["interlock.toml", "pyproject.toml"])
def test_where_the_defaults_are_wrong_the_folder_has_no_dockerfile_to_try(tmp_path: Path, name: str) -> None:
    (tmp_path / "Dockerfile").write_text("FROM x\n")
    assert own_dockerfile(tmp_path) is not None
    (tmp_path / name).write_text("[tool.interlock.trial]\nno-such-key = 1\n")
    assert own_dockerfile(tmp_path) is None

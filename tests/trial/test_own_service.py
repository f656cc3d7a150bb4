"""What the files of a folder say of its service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.trial.own_service import OwnService, find_service

COMPOSE = """\
services:
  db: {image: y}
  web:
    build: {context: ., dockerfile: D}
    ports: ['80:5000']
"""


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
        *(({"compose.yaml": f"services: {{web: {{build: ., ports: {ports}}}}}\n"}, {"port": None, "file": "Dockerfile"})
          for ports in ("8000", "'8000:8000'", "{a: 1}")),
        (
            {"requirements.txt": "Flask>=3\n", "uv.lock": "broken"},
            {"requirement": "requirements.txt", "framework": "flask"},
        ),
        ({"Dockerfile": "FROM x\nEXPOSE 80\n", "requirements.txt": "fastapi\n"}, {"health": "/openapi.json"}),
    ],
)  # fmt: skip
def test_a_service_is_what_the_files_of_its_folder_say(
    tmp_path: Path, files: dict[str, str], told: dict[str, Any]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = find_service(tmp_path)
    assert {name: getattr(found, name) for name in told} == told
    assert told or found == OwnService()

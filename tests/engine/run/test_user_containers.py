"""The GIL probe, run by this machine's interpreter with a GIL that is made up, and how it comes back."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from interlock.engine.run import user_containers
from interlock.engine.run.user_containers import parse_listening, python_path
from tests.builders import extract, make_container

# What a free-threaded interpreter has: `sys._is_gil_enabled`, here as a list that the program changes.
PRETENCE = "import sys\ngil = [False]\nsys._is_gil_enabled = lambda: gil[0]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The GIL probe as a container gets it."""
    with tarfile.open(fileobj=io.BytesIO(user_containers.gil_probe_archive())) as tar:
        extract(tar, tmp_path)
    return tmp_path / user_containers.GIL_FOLDER.strip("/")


def run(folder: Path, program: str, *path: Path) -> str:
    """Runs the program with the GIL probe; what it printed."""
    (folder / "pretence.py").write_text(PRETENCE)
    # The pretence must be there before the GIL probe looks.
    source = folder / "sitecustomize.py"
    source.write_text("import pretence\n" + source.read_text().replace("import pretence\n", ""))
    environment = {**os.environ, "PYTHONPATH": ":".join(map(str, (folder, *path)))}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout


def said(folder: Path) -> list[list[str]]:
    return [path.read_text().split() for path in sorted(folder.glob("*.gil"))]


def test_every_user_may_write_beside_the_witness() -> None:
    with tarfile.open(fileobj=io.BytesIO(user_containers.gil_probe_archive())) as tar:
        modes = {entry.name: entry.mode for entry in tar}
    assert modes == {"interlock-gil": 0o1777, "interlock-gil/sitecustomize.py": 0o644}


def test_a_gil_that_stays_off_is_said(folder: Path) -> None:
    run(folder, "import json")
    ((_, start, now, *_),) = said(folder)
    assert (start, now) == ("0", "0")


def test_a_gil_that_comes_back_is_said_with_what_was_loaded_last(folder: Path) -> None:
    run(folder, "import pretence, _testcapi, colorsys\npretence.gil[0] = True\nopen('/dev/null')\nimport _testbuffer")
    ((_, start, now, module),) = said(folder)
    assert (start, now, module) == ("0", "1", "_testcapi")


def test_a_gil_that_is_on_while_a_module_is_loaded_has_not_come_back(folder: Path) -> None:
    loading = "pretence.gil[0] = True; open('/dev/null'); pretence.gil[0] = False; open('/dev/null')"
    run(folder, f"import pretence, _testcapi\n{loading}")
    ((_, start, now, *_),) = said(folder)
    assert (start, now) == ("0", "0")


def test_a_forked_process_speaks_for_itself(folder: Path) -> None:
    child = "pretence.gil[0] = True; open('/dev/null'); os._exit(0)"
    program = f"import os, pretence\nif os.fork() == 0:\n    {child}\nos.wait()"
    run(folder, program)
    assert sorted(words[2] for words in said(folder)) == ["0", "1"]


def test_a_forked_process_in_which_nothing_changes_is_heard_as_well(folder: Path) -> None:
    run(folder, "import os\nif os.fork() == 0:\n    open('/dev/null')\n    os._exit(0)\nos.wait()")
    assert [words[1:3] for words in said(folder)] == [["0", "0"], ["0", "0"]]


def test_the_images_own_sitecustomize_runs_as_well(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("print('own', __name__)\n")
    assert run(folder, "print('program')", own).splitlines() == ["own sitecustomize", "program"]


def test_an_interpreter_without_the_question_says_nothing(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    subprocess.run([sys.executable, "-c", "import json"], env=environment, check=True, timeout=60)
    assert said(folder) == [] or sys.version_info >= (3, 13)


def test_a_line_that_cannot_be_written_disturbs_nobody(folder: Path) -> None:
    # The process keeps its id, and where its line would be there is a folder.
    shell = 'rm "$PYTHONPATH/$$.gil"; mkdir "$PYTHONPATH/$$.gil"; exec "$0" -c "print(1)"'
    assert run(folder, f"import os, sys\nos.execv('/bin/sh', ['sh', '-c', {shell!r}, sys.executable])") == "1\n"


@pytest.mark.parametrize("data", [b"", b"no tar", gzip.compress(bytes(10_240)), gzip.compress(b"x")[:-4], bytes(100)])
def test_a_container_that_sends_no_tar_has_written_nothing(data: bytes) -> None:
    assert user_containers.read_gil_probe(make_container(data)) == []


def test_the_gil_probe_stands_before_the_images_own_path() -> None:
    assert python_path({}, "/w") == "/w"
    assert python_path({"PYTHONPATH": "/app:/lib"}, "/w") == "/w:/app:/lib"


TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0B00007F:9C1F 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   2: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   3: 0100007F:1F41 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
  sl  local_address                         remote_address                        st tx_queue rx_queue tr
   0: 00000000000000000000000000000000:2328 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000
"""


def test_where_a_container_listens_is_said_without_the_engines_name_server() -> None:
    assert parse_listening(TCP) == ["0.0.0.0:8000", "127.0.0.1:8080", "[::]:9000"]

"""The command server's client, against servers that keep to the protocol and servers that do not.

That Mercurial itself answers it is shown in containers: tests/proofs/test_pth.py.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.workloads.conftest import Run

SERVER = """\
import struct, sys
out, into = sys.stdout.buffer, sys.stdin.buffer
def say(channel, data):
    out.write(struct.pack(">cI", channel, len(data)) + data)
    out.flush()
assert sys.argv[1:] == ["serve", "--cmdserver", "pipe"], sys.argv
say(b"o", HELLO)
while into.readline() == b"runcommand\\n":
    arguments = into.read(struct.unpack(">I", into.read(4))[0]).split(b"\\0")
    assert arguments == [b"version"], arguments
    ANSWER
sys.exit(CODE)
"""
HELLO = "b'capabilities: getencoding runcommand\\nencoding: UTF-8'"
GOOD = (
    "say(b'o', b'Mercurial Distributed '); say(b'e', b'a warning'); say(b'o', b'SCM (version 1)'); "
    "say(b'r', struct.pack('>i', 0))"
)


@pytest.fixture
def run(run_program: Run, tmp_path: Path) -> Run:
    """Runs the client with a server that answers so."""

    def ask(answer: str = GOOD, hello: str = HELLO, code: int = 0) -> subprocess.CompletedProcess[str]:
        server = tmp_path / "hg"
        server.write_text(SERVER.replace("HELLO", hello).replace("ANSWER", answer).replace("CODE", str(code)))
        return run_program("hg_cmdserver.py", "--hg", str(server), "--loops", "3", "--warmups", "0", "--values", "2")

    return ask


def test_commands_are_counted_and_timed(run: Run) -> None:
    done = run()
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["loops"], report["inner_loops"], len(report["values"])) == (3, 1, 2)


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (
            {"answer": "say(b'o', b'something else'); say(b'r', struct.pack('>i', 0))"},
            "exit code 0, b'something else'",
        ),
        ({"answer": GOOD.replace("'>i', 0", "'>i', 255")}, "exit code 255"),
        ({"answer": "sys.exit(0)"}, "the command server closed its pipe"),
        ({"answer": "out.write(struct.pack('>cI', b'o', 100) + b'short'); sys.exit(0)"}, "answer is cut short"),
        ({"answer": "say(b'I', b'')"}, "the command server asks for input"),
        ({"hello": "b'capabilities: getencoding'"}, "the command server greets with 'capabilities: getencoding'"),
    ],
)
def test_an_answer_that_is_not_hg_version_s_is_no_work_done(run: Run, server: dict[str, Any], said: str) -> None:
    done = run(**server)
    assert done.returncode == 1
    assert "work not done: " in done.stderr
    assert said in done.stderr
    assert done.stdout == ""


def test_a_server_that_does_not_end_well_fails(run: Run) -> None:
    done = run(code=3)
    assert done.returncode == 1
    assert "exit code 3" in done.stderr

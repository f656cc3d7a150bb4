"""What one file of up to 1 MB costs, whatever is in it: an answer or a refusal within seconds, and little memory.

`python -m tests.swap.test_bounds` prints each file's size, seconds and answer, the slowest first.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from interlock.errors import SwapError
from interlock.swap import files
from tests.builders import ROOT
from tests.swap.samples import FREE

pytestmark = pytest.mark.slow
SIZE, LIMIT = 99_000, 1_000_000
MOST_S, MOST_MIB = 2.0, 300
HEAD = "FROM python:3.12\n"
# Units that fill a line behind these words, up to what is read of a Dockerfile.
UNITS = {
    "RUN ": (
        "$A ",
        "python3.12 ",
        "python$V ",
        "python${V%.*} ",
        "apt-get install a && ",
        "\\\n",
        "deb ",
        "deb x -t ",
        ";",
        "`",
        "'",
        '"\\',
        "<<E ",
        "[",
        "pip --a ",
        "uv pip -a ",
        "tox -",
        "uv run --x ",
        "conda ",
        "/",
        "A=$A ",
        "A=x;$A ",
        "/usr/bin/python3 ",
        "tar x",
        "apt-get install -y libgl1-mesa-glx;",
        "://debian/",
        "git+",
        "cat a.txt ",
        "sh a.sh;",
        "pip install -r a.txt ",
        "pip install ",
        "poetry install ",
        "TZ=US/",
        "sudo apt-get ",
        "exec tox ",
        "env ",
        "$(",
        "${A",
        "${A%*",
    ),
    "RUN apt-get install -y ": ("libgl1-mesa-glx ", "a=1+deb12u1 ", "=", "$A"),
    "COPY ": ("--a ", '--a="', "a ", '["a", '),
    "ENV ": ('A="', "A=b ", "PATH=", "TZ=US/Pacific "),
    "CMD ": ('["', '["a",'),
    "FROM ": ("a/", "$A", "${A:-", "python:", "3.", "-slim"),
}
TEXTS = {
    f"{words}{unit!r}": f"{HEAD}{words}{unit * ((SIZE - 40) // len(unit))}\n"
    for words, us in UNITS.items()
    for unit in us
}
TEXTS |= {
    "arguments that double": "ARG A0=python\n"
    + "".join(f"ARG A{n + 1}=$A{n}$A{n}\n" for n in range(900))
    + "FROM $A30\n",
    "variables that grow": HEAD + "ENV A=b$A$A\nRUN $A\n" * 900,
    "a name of 200 letters": f"FROM node AS {'a' * 200}\nFROM {'a$A' * 20}b\n",
    "stages": "".join(f"FROM python:3.12 AS s{n}\nCOPY --from=s{max(n - 1, 0)} /a /b\n" for n in range(499)),
    "stages of stages": "FROM python:3.12 AS s0\n"
    + "".join(f"FROM s{n} AS s{n + 1}\nRUN python3 -V\n" for n in range(498)),
    "arguments of stages": "".join(f"ARG A{n}=python:3.12\n" for n in range(1500))
    + "".join(f"FROM $A{n}\n" for n in range(499)),
    "copies": HEAD + "COPY --from=b /lib/python3.12 /x\n" * 1900,
    "comments of a swap": HEAD + "# interlock: paths were python3.12\nRUN python3.14t\n" * 7000,
    "additions of a swap": HEAD + "# interlock: added uv\nCOPY --from=x a b\n" * 7000,
    "heredocs": HEAD + "RUN <<E\npython3.12\nE\n" * 600,
    "a line of 1 MB": HEAD + "RUN " + "x" * LIMIT,
    "1 MB of lines": HEAD + "RUN x\n" * (LIMIT // 6),
}
SERVICES = "services:\n"
YAML = {
    "services": SERVICES + "".join(f" a{n}: {{image: 'python:3.12'}}\n" for n in range(3000)),
    "1 MB of services": SERVICES + "".join(f" a{n}: {{image: 'python:3.12'}}\n" for n in range(30_000)),
    "aliases of aliases": "a: &a0 [x, x]\n"
    + "".join(f"b{n}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(60))
    + SERVICES
    + " a: {image: 'python:3.12', command: *a60}\n",
    "merges of merges": SERVICES
    + " a0: &a0 {image: 'python:3.12'}\n"
    + "".join(f" a{n + 1}: &a{n + 1} {{<<: *a{n}}}\n" for n in range(2500)),
    "merges of many keys": f"a: &a {{{', '.join(f'k{n}: 1' for n in range(4000))}}}\n{SERVICES}"
    + "".join(f" a{n}: {{<<: *a}}\n" for n in range(2400))
    + " b: {image: 'python:3.12'}\n",
    "containers": "apiVersion: v1\nkind: Pod\nspec:\n containers:\n"
    + "".join(f"  - {{name: a{n}, image: 'python:3.12'}}\n" for n in range(2300)),
    "steps": "steps:\n" + "".join(f"  - {{name: 'python:3.12', args: [a{n}]}}\n" for n in range(2300)),
}
JSON = {
    "features": json.dumps({"image": "python:3.12", "features": {f"a{n}": {} for n in range(9000)}}),
    "numbers": '{"image": "python:3.12", "x": [' + ",".join("1" * 490_000) + "]}",
    "brackets": "[" * 500_000,
}
FILES = [
    *(("Dockerfile", name, text) for name, text in TEXTS.items()),
    *(("compose.yaml", name, text) for name, text in YAML.items()),
    *(("devcontainer.json", name, text) for name, text in JSON.items()),
]


def beside(_: str) -> str:
    return "-r a.txt\nlibgl1-mesa-glx uwsgi git+https://x\n" * 1000


def timed(file: str, text: str) -> tuple[float, str]:
    """The seconds of this process for a swap and for its way back, and how both ended."""
    start, ends = time.process_time(), []
    for action in (
        lambda: files.swapped_file(file, text, FREE, None, paths=True, beside=beside),
        lambda: files.reverted_file(file, text),
    ):
        try:
            action()
            ends.append("answered")
        except SwapError:
            ends.append("refused")
    return time.process_time() - start, " and ".join(dict.fromkeys(ends))


@pytest.mark.parametrize(("file", "name", "text"), FILES, ids=[f"{file}-{name}" for file, name, _ in FILES])
def test_a_file_is_answered_or_refused_within_two_seconds(file: str, name: str, text: str) -> None:
    assert len(text) <= LIMIT + 100
    # Of the swap and of the way back, each: their sum.
    assert timed(file, text)[0] < 2 * MOST_S


def test_no_file_takes_more_memory_than_is_said() -> None:
    """As the kernel counts for the program itself: in getrusage is what its parent had when it was started."""
    program = (
        "from tests.swap.test_bounds import *\n"
        "[timed(file, text) for file, _, text in FILES]\n"
        "print(open('/proc/self/status').read())"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    (peak_kib,) = [int(line.split()[1]) for line in said.splitlines() if line.startswith("VmHWM:")]
    assert 10 < peak_kib / 1024 < MOST_MIB


def rows() -> Iterator[tuple[float, str]]:
    for file, name, text in FILES:
        seconds, end = timed(file, text)
        yield seconds, f"{seconds:6.2f} s  {len(text) // 1000:5} kB  {end:22} {file}: {name}"


if __name__ == "__main__":
    for _, row in sorted(rows(), reverse=True):
        print(row)

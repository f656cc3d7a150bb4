"""Containers of an experiment in the real engine: processes, deadlines, and nothing left behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock import instruments
from interlock.engine import cells
from interlock.engine.helpers import ensure_helper
from interlock.model import Built
from interlock.profile import parse_strace

OWNER = "test-cells"


@pytest.fixture
def volume(client: Any, root: Path, built: dict[str, Built], nothing_left: None) -> Iterator[str]:
    base = built["cpython-2.7"].base
    assert base is not None
    image_id = ensure_helper(client, root, "instruments", base)
    yield cells.create_instruments_volume(client, OWNER, image_id, {"hello.py": b"print('hello from the volume')\n"})
    cells.clean_up(client, OWNER)


@pytest.fixture
def cell(client: Any, built: dict[str, Built], volume: str) -> Any:
    options = cells.CellOptions(OWNER, instruments.IDLE, volume, None)
    return cells.start_cell(client, built["cpython-2.7"].image_id, options)


def test_a_process_yields_its_output_and_exit_code(client: Any, cell: Any) -> None:
    ended = cells.run_process(client, cell, ["sh", "-c", "echo out; echo err >&2; exit 3"], deadline_s=30)
    assert ended == cells.Ended(3, "out\n", "err\n", timed_out=False)


def test_programs_and_launcher_come_with_the_volume(client: Any, cell: Any) -> None:
    argv = [instruments.LAUNCH, "--repeat", "2", "--", "python", "/interlock/workloads/hello.py"]
    ended = cells.run_process(client, cell, argv, deadline_s=30)
    assert ended.stdout.count("hello from the volume") == 2
    costs = instruments.parse_costs(ended.stdout)
    assert len(costs) == 2
    assert all(0 < cost.wall_s < 10 and cost.exit_code == 0 for cost in costs)


def test_a_process_past_its_deadline_is_gone_with_its_container(client: Any, cell: Any) -> None:
    started = time.monotonic()
    ended = cells.run_process(client, cell, ["sleep", "300"], deadline_s=1)
    assert ended.timed_out
    assert time.monotonic() - started < 20
    assert cell.id not in {container.id for container in client.containers.list(all=True)}


def test_a_cell_has_no_network(client: Any, cell: Any) -> None:
    ended = cells.run_process(client, cell, ["cat", "/proc/net/dev"], deadline_s=30)
    assert [line.split(":")[0].strip() for line in ended.stdout.splitlines()[2:]] == ["lo"]


def test_strace_counts_a_known_number_of_calls(client: Any, cell: Any) -> None:
    calls = "for _ in range(1234): os.getppid()"
    errors = "for _ in range(56):\n try: os.close(999)\n except OSError: pass"
    program = f"import os\n{calls}\n{errors}"
    ended = cells.run_process(client, cell, [*instruments.STRACE, "python", "-c", program], deadline_s=60)
    counts = parse_strace(ended.stderr)
    assert counts.calls["getppid"] == 1234
    assert counts.errors["close"] >= 56


def test_the_server_hands_out_its_files_on_a_network_without_a_way_out(
    client: Any, root: Path, built: dict[str, Built], volume: str
) -> None:
    base = built["cpython-2.7"].base
    assert base is not None
    network = cells.create_network(client, OWNER)
    environment = {"SINGLE_MIB": "1", "MANY_FILES": "2", "MANY_MIB": "1"}
    server = cells.start_server(client, OWNER, ensure_helper(client, root, "server", base), network, environment)
    options = cells.CellOptions(OWNER, instruments.IDLE, volume, network)
    cell = cells.start_cell(client, built["cpython-2.7"].image_id, options)
    url = cells.server_url(client, server, network)
    fetch = f"import urllib2; print(urllib2.urlopen('{url}/manifest').read())"
    manifest = cells.run_process(client, cell, ["python", "-c", fetch], deadline_s=30).stdout
    assert [line.split()[1:] for line in manifest.strip().splitlines()] == [
        ["1048576", "single.bin"],
        ["1048576", "many/000.bin"],
        ["1048576", "many/001.bin"],
    ]
    outside = "import socket; socket.create_connection(('192.0.2.1', 80), 3)"
    assert cells.run_process(client, cell, ["python", "-c", outside], deadline_s=30).exit_code == 1

"""Containers of an experiment in the real engine: processes, deadlines, and nothing left behind."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError

from interlock.catalog.project import Catalog
from interlock.catalog.types import Right
from interlock.engine.agent import LAUNCH
from interlock.engine.build.helper_images import ensure_helper
from interlock.engine.build.image import QUESTION, broken_mode, parse_facts
from interlock.engine.ended import Ended
from interlock.engine.protocol import Surroundings
from interlock.engine.run import containers, execution, leftovers
from interlock.engine.run.execution import Commands
from interlock.errors import WorkloadError
from interlock.measure import processes
from interlock.results.experiments import Subject
from tests.integration.images import QUICK, Images
from tests.integration.resources import said, start
from tests.integration.toys import MODE_OF, waking_mode
from tests.integration.wheelhouse import this_machine

pytestmark = pytest.mark.promise

OWNER = f"test-cells-{os.getpid()}"


@pytest.fixture(scope="module")
def programs() -> dict[str, bytes]:
    return {"hello.py": b"print('hello from the volume')\n"}


def test_a_process_yields_its_output_and_exit_code(client: Any, cell: Any) -> None:
    ended = execution.run_process(cell, ["sh", "-c", "echo out; echo err >&2; exit 3"], deadline_s=30)
    assert ended == Ended(3, "out\n", "err\n", timed_out=False)


def test_a_short_command_yields_the_same_until_its_container_is_gone(client: Any, cell: Any) -> None:
    commands = Commands(cell)
    for _ in range(2):
        ended = commands.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
        assert ended == Ended(3, "out\n", "err\n", timed_out=False)
    assert commands.run(["no-such-program"]).exit_code == 127
    assert commands.run(["sleep", "60"], deadline_s=0.2).timed_out
    assert commands.run(["echo", "still there"]).stdout == "still there\n"
    leftovers.remove(cell)
    for _ in range(2):
        with pytest.raises(WorkloadError, match="echo"):
            commands.run(["echo"])


def test_programs_and_launcher_come_with_the_volume(client: Any, cell: Any) -> None:
    argv = [LAUNCH, "--repeat", "2", "--", "python", "/interlock/workloads/hello.py"]
    ended = execution.run_process(cell, argv, deadline_s=30)
    assert ended.stdout.count("hello from the volume") == 2
    costs = processes.parse_costs(ended.stdout)
    assert len(costs) == 2
    assert all(0 < cost.wall_s < 10 and cost.exit_code == 0 for cost in costs)


def test_a_process_past_its_deadline_is_gone_with_its_container(client: Any, cell: Any) -> None:
    started = time.monotonic()
    ended = execution.run_process(cell, ["sleep", "300"], deadline_s=1)
    assert ended.timed_out
    assert time.monotonic() - started < 20
    assert cell.id not in {container.id for container in client.containers.list(all=True, ignore_removed=True)}


@pytest.mark.promise(escapes=True)
def test_what_a_cell_writes_to_its_first_process_reaches_no_disk_of_the_host(client: Any, cell: Any) -> None:
    flood = ["sh", "-c", "head -c 50000000 /dev/zero | tr '\\0' x > /proc/1/fd/1 && echo written"]
    assert said(cell, *flood) == "written"
    cell.reload()
    assert cell.attrs["LogPath"] == ""
    with pytest.raises(APIError, match="does not support reading"):
        cell.logs(tail=1)


def test_a_cell_has_no_network(client: Any, cell: Any) -> None:
    ended = execution.run_process(cell, ["cat", "/proc/net/dev"], deadline_s=30)
    assert [line.split(":")[0].strip() for line in ended.stdout.splitlines()[2:]] == ["lo"]


def test_the_server_hands_out_its_files_on_a_network_without_a_way_out(
    client: Any, root: Path, built: Images, volume: str
) -> None:
    base = built[QUICK].base
    assert base is not None
    network = containers.create_network(client, OWNER)
    environment = {"SINGLE_MIB": "1", "MANY_FILES": "2", "MANY_MIB": "1"}
    server = containers.start_server(client, OWNER, ensure_helper(client, root, "server", base), network, environment)
    cell = start(client, OWNER, built[QUICK], volume, network=network)
    url = containers.server_url(server, network)
    fetch = f"import urllib.request; print(urllib.request.urlopen('{url}/manifest').read().decode())"
    manifest = execution.run_process(cell, ["python", "-c", fetch], deadline_s=30).stdout
    assert [line.split()[1:] for line in manifest.strip().splitlines()] == [
        ["1048576", "single.bin"],
        ["1048576", "many/000.bin"],
        ["1048576", "many/001.bin"],
    ]
    outside = "import socket; socket.create_connection(('192.0.2.1', 80), 3)"
    assert execution.run_process(cell, ["python", "-c", outside], deadline_s=30).exit_code == 1
    # Ten seconds for each question otherwise: waitress asks for the name of the address that it listens at.
    options_line = said(cell, "grep", "^options", "/etc/resolv.conf").split()
    assert {"timeout:1", "attempts:1"} <= set(options_line)
    listening = "import socket; print(socket.getnameinfo(('0.0.0.0', 80), socket.NI_NUMERICSERV)[0])"
    assert said(cell, "python", "-c", listening) == "all-addresses"


# What it is and has, what it can write to, and whether it reaches the address that is its only argument.
RIGHTS = """\
import json, os, socket, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
def writes(folder):
    try:
        open(folder + "/file", "w").close()
        return True
    except OSError:
        return False
def reaches(host, port):
    try:
        return socket.create_connection((host, int(port)), 1) is not None
    except OSError:
        return False
print(json.dumps({
    "user": os.getuid(),
    "capabilities": [int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "no_new": int(status["NoNewPrivs"]),
    "filter": int(status["Seccomp"]),
    "writes": [folder for folder in ("/", "/usr/local/bin", "/etc", "/tmp", "/scratch", "/disk") if writes(folder)],
    "reached": [host for host in sys.argv[2:] if reaches(host, sys.argv[1])],
}))
"""


@pytest.mark.parametrize(
    ("rights", "user", "writes"),
    [
        ([], 65534, ["/tmp", "/scratch"]),
        (["root"], 0, ["/tmp", "/scratch"]),
        (["disk"], 65534, ["/tmp", "/scratch", "/disk"]),
        (["root", "writable-root"], 0, ["/", "/usr/local/bin", "/etc", "/tmp", "/scratch"]),
    ],
    ids=["none", "root", "disk", "writable"],
)
def test_a_cell_has_what_is_documented_and_no_more(
    client: Any, built: Images, volume: str, rights: list[Right], user: int, writes: list[str]
) -> None:
    network = containers.create_network(client, OWNER)
    cell = start(client, OWNER, built[QUICK], volume, Surroundings(tuple(rights)), network)
    hosts = [this_machine(client, one) for one in (network, "bridge")]
    with socket.create_server(("", 0)) as service:
        port = str(service.getsockname()[1])
        found = json.loads(said(cell, "python", "-c", RIGHTS, port, *hosts))
    assert found == {
        "user": user,
        "capabilities": [0, 0, 0, 0],
        "no_new": 1,
        "filter": 2,  # the engine's own
        "writes": writes,
        "reached": [],
    }


def test_a_cell_that_asks_for_a_disk_has_one_of_its_own_that_goes_with_it(
    client: Any, built: Images, volume: str
) -> None:
    cell = start(client, OWNER, built[QUICK], volume, Surroundings(rights=("disk",)))
    assert said(cell, "sh", "-c", "echo kept > /disk/file && cat /disk/file") == "kept"
    assert said(cell, "stat", "-f", "-c", "%T", "/disk") != "tmpfs"
    (name,) = (mount["Name"] for mount in cell.attrs["Mounts"] if mount["Destination"] == "/disk")
    leftovers.remove(cell)
    assert name not in {volume.name for volume in client.volumes.list()}


def test_an_environment_reaches_its_process_and_no_other(client: Any, cell: Any) -> None:
    ask = ["sh", "-c", "echo ${INTERLOCK_TEST-unset}"]
    assert said(cell, *ask, environment={"INTERLOCK_TEST": "a b=c"}) == "a b=c"
    assert said(cell, *ask) == "unset"


def test_the_interpreter_says_whether_a_mode_took_effect(client: Any, catalog: Catalog, cell: Any) -> None:
    mode = waking_mode(catalog)
    lost = {"LD_PRELOAD": "/interlock/lost.so"}
    found = []
    for environment in (mode.environment, lost):
        subject = Subject(variant=MODE_OF, image_id="", mode=mode.name, environment=environment)
        ended = execution.run_process(cell, ["python", "-c", QUESTION], 60, environment)
        found.append(broken_mode(subject, parse_facts(ended.stdout)))
    taken, refused = found
    assert taken == ""
    assert lost["LD_PRELOAD"] in refused

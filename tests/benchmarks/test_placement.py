"""Where an interpreter's pages are, process by process, and what it costs to read them anew. Prints.

Needs the engine on this machine, and root: the kernel tells nobody else where pages are. `debian-3.13` is built if it
is not there.
"""

from __future__ import annotations

import os
import statistics
import struct
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from interlock.catalog import project as catalogs
from interlock.catalog.project import ProjectPaths
from interlock.engine.agent import Agent
from interlock.engine.build.helper_images import ensure_helper
from interlock.engine.build.image import QUESTION, parse_facts
from interlock.engine.docker import DockerEngine, connect
from interlock.engine.protocol import BuildOptions
from interlock.engine.run import containers, execution, leftovers
from interlock.results.experiments import Built

ROOT = Path(__file__).parents[2]
VARIANT = "debian-3.13"
OWNER = "placement"
LIMIT_S, CONTAINERS, PROCESSES = 60, 2, 20
PAGE = os.sysconf("SC_PAGE_SIZE")
# https://docs.kernel.org/admin-guide/mm/pagemap.html
PRESENT, FRAME = 1 << 63, (1 << 55) - 1
# It says that it is there, and lives until its stdin is closed.
WAIT = "import os, sys; print(os.path.realpath(sys.executable)); sys.stdout.flush(); sys.stdin.read()"


@pytest.fixture
def client() -> Iterator[DockerClient]:
    found = connect().client
    yield found
    leftovers.clean_up(found, OWNER)


@pytest.fixture
def image(client: DockerClient) -> Built:
    options = BuildOptions(ROOT, ProjectPaths.find().cache)
    (built,) = DockerEngine(client).build(catalogs.load(ROOT), [VARIANT], options, lambda *_: None)
    return built


def frames(container: Any, agent: Agent) -> tuple[dict[int, int], float]:
    """Start an interpreter: the frame of each page of its code, by the page's number, and the seconds of its start."""
    start_s = time.monotonic()
    process = agent.start(["--feed"], ["python", "-c", WAIT], {})
    executable = process.line(LIMIT_S) or ""
    took_s = time.monotonic() - start_s
    (pid,) = [int(row[1]) for row in container.top()["Processes"] if WAIT in row[-1]]
    found: dict[int, int] = {}
    with Path(f"/proc/{pid}/pagemap").open("rb") as table:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights, *_, path = line.split(None, 5)
            if path != executable or "x" not in rights:
                continue
            first, end = (int(address, 16) // PAGE for address in span.split("-"))
            table.seek(first * 8)
            entries = struct.unpack(f"{end - first}Q", table.read(8 * (end - first)))
            found |= {number: entry & FRAME for number, entry in enumerate(entries) if entry & PRESENT}
    process.end(LIMIT_S)
    assert found, f"no page of {executable} is known"
    return found, took_s


def share_that_stays(before: dict[int, int], after: dict[int, int]) -> float:
    both = before.keys() & after.keys()
    return sum(before[number] == after[number] for number in both) / len(both)


def test_pages_stay_in_their_places_until_they_are_dropped(
    client: DockerClient, image: Built, capsys: pytest.CaptureFixture[str]
) -> None:
    assert image.base is not None
    volume = containers.create_instruments_volume(
        client, OWNER, ensure_helper(client, ROOT, "instruments", image.base), {}
    )
    with capsys.disabled():
        print(f"\n{PROCESSES} processes of {VARIANT} one after the other: pages of the interpreter's code that stay")
        for _ in range(CONTAINERS):
            container = containers.start_cell(client, image.image_id, containers.CellOptions(OWNER, volume, None))
            facts = parse_facts(execution.run_process(client, container, ["python", "-c", QUESTION], LIMIT_S).stdout)
            agent = execution.start_agent(client, container)
            for what, files in (("as they are", []), ("dropped before each", facts.mapped_files)):
                found = []
                for _ in range(PROCESSES):
                    agent.drop(files)
                    found.append(frames(container, agent))
                stays = [share_that_stays(one, other) for (one, _), (other, _) in pairwise(found)]
                start_s = statistics.median(took_s for _, took_s in found)
                print(f"{what:20} {statistics.mean(stays):6.1%} of {len(found[0][0])}, start {1000 * start_s:.1f} ms")

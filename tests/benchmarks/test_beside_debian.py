"""Our build of 3.13 beside Debian's own python3.13: how many times as fast, by program. Printed, not asserted.

Needs the engine, pyperformance (`pip install '.[test]'`), and 20 minutes in which nothing else runs. The
images are built if they are not there; the build with frame pointers, one in the official image's style, and
the official image itself are beside them if they can be had. INTERLOCK_SPEED_IMAGES="ours=TAG debian=TAG
anything=TAG ..." names images of this engine instead: all are compared with the one called debian.
INTERLOCK_SPEED_ROUNDS (6) is how often each program runs in each image.
"""

from __future__ import annotations

import os
import random
import statistics
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from typing import Any

import pytest

from interlock.analysis import statistics as ratios
from interlock.catalog import project as catalogs
from interlock.catalog.project import ProjectPaths
from interlock.engine.docker import DockerEngine
from interlock.engine.protocol import BuildOptions
from tests.benchmarks.cell import engine_of
from tests.benchmarks.pyperformance import Program, Task, calibrate, run, start_containers
from tests.builders import ROOT

OWNER = "beside-debian"
DEBIAN = "debian"
# Variants by the column's name. Those that the project or this machine has not are left out.
COLUMNS = {
    "ours": "cpython-3.13",
    DEBIAN: "debian-3.13",
    "frame pointers": "cpython-3.13-frame-pointers",
    "official's style": "cpython-3.13-shared",
    "official": "official-3.13",
}
NEEDED = ("ours", DEBIAN)
IMAGES_VARIABLE = "INTERLOCK_SPEED_IMAGES"
ROUNDS = int(os.environ.get("INTERLOCK_SPEED_ROUNDS", "6"))
SEED = 3135
# All of pyperformance that needs the standard library alone, in Program.parse's words, but for what starts processes
# (2to3, concurrent_imap), uses the network or sleeps (asyncio_tcp, async_tree_io), takes half a second or more for one
# loop (bpe_tokeniser, gc_collect, mdp, pprint), and what only repeats another (more of async_tree, base64 and so on).
PROGRAMS = """
argparse/argparse_subparsers async_generators async_tree barnes_hut base64 chaos comprehensions coroutines
decimal_factorial decimal_pi deepcopy deltablue fannkuch float gc_traversal generators go hexiom json_dumps json_loads
logging logging:1 logging:2 meteor_contest nbody nqueens pathlib pickle pickle/unpickle pickle/pickle_pure_python
pidigits pyflate python_startup python_startup/python_startup_no_site raytrace regex_compile regex_dna regex_effbot
regex_v8 richards scimark scimark:1 scimark:2 scimark:3 scimark:4 spectral_norm sqlite_synth telco
typing_runtime_protocols unpack_sequence xml_etree xml_etree:1 xml_etree:2 xml_etree:3
"""
# Programs whose part of the standard library is another in Debian's package: not the build's doing.
OTHER_LIBRARY = {"logging": "3.13.4 and 3.13.5 look up a thread's local data in each call; Debian has 3.13.6's revert"}

# Seconds per loop, one for each round, by task and image.
Timings = dict[str, dict[str, list[float]]]


@pytest.fixture
def client() -> Iterator[Any]:
    with engine_of(OWNER) as connected:
        yield connected


def images(client: Any) -> dict[str, str]:
    """Image ids or tags by the column's name."""
    named = os.environ.get(IMAGES_VARIABLE)
    if named:
        return dict(pair.split("=", maxsplit=1) for pair in named.split())
    catalog = catalogs.load(ROOT)
    found: dict[str, str] = {}
    for name, variant in COLUMNS.items():
        if variant in catalog.variants:
            options = BuildOptions(ROOT, ProjectPaths.find().cache)
            (built,) = DockerEngine(client).build(catalog, [variant], options, lambda *_: None)
            assert built.image_id or name not in NEEDED, built.outcome
            found |= {name: built.image_id} if built.image_id else {}
    return found


def interleaved(client: Any, containers: Mapping[str, Any], tasks: list[Task]) -> Timings:
    """Each task once in each container and round: the images of one task straight after each other, in any order."""
    timings: Timings = defaultdict(lambda: defaultdict(list))
    shuffle = random.Random(SEED)
    for number in range(ROUNDS):
        for task in shuffle.sample(tasks, len(tasks)):
            for name in shuffle.sample(list(containers), len(containers)):
                timings[task.title][name].append(run(client, containers[name], task, seed=number))
    return timings


def times_as_fast(timings: Timings, name: str) -> dict[str, ratios.Ratio]:
    found = {title: ratios.ratio_of(of[DEBIAN], of[name]) for title, of in timings.items()}
    return {title: ratio for title, ratio in found.items() if ratio}


def by_program(
    timings: Timings, tasks: list[Task], name: str, without: Container[str] = ()
) -> list[list[ratios.Ratio]]:
    """A program counts once, however many of its timings were taken."""
    groups: dict[str, list[ratios.Ratio]] = defaultdict(list)
    for task in tasks:
        if task.program.folder not in without:
            of = timings[task.title]
            if ratio := ratios.ratio_of(of[DEBIAN], of[name]):
                groups[task.program.folder].append(ratio)
    return list(groups.values())


def show(timings: Timings, tasks: list[Task], columns: list[str]) -> None:
    found = {name: times_as_fast(timings, name) for name in columns}
    print(f"\n\nTimes as fast as the image called {DEBIAN}, 95 % interval, of {ROUNDS} rounds")
    print(f"{'':28}{'Debian, ms':>12}", *(f"{name:>22}" for name in columns))
    for title in sorted(timings):
        shown = (f"{_shown(found[name][title]):>22}" for name in columns)
        print(f"{title:28}{statistics.median(timings[title][DEBIAN]) * 1e3:12.4g}", *shown)
    for name in columns:
        for what, without in (("", ()), (f" without {', '.join(OTHER_LIBRARY)}", OTHER_LIBRARY)):
            groups = by_program(timings, tasks, name, without)
            mean = ratios.mean_by_group(groups)
            print(f"{name}: geometric mean of {len(groups)} programs{what}: {_shown(mean) if mean else 'none'}")
        below = sorted((ratio.estimate, title) for title, ratio in found[name].items() if ratio.high < 1)
        print(f"{name}: surely below 1.00:", ", ".join(f"{title} {ratio:.3f}" for ratio, title in below) or "none")
    for program, reason in OTHER_LIBRARY.items():
        print(f"{program}: {reason}")


def _shown(ratio: ratios.Interval) -> str:
    return f"{ratio.estimate:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


def test_our_build_beside_debians_own_python(client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Loops are decided once, by Debian's interpreter; what calibration takes warms the other containers' files up."""
    programs = [Program.parse(word) for word in PROGRAMS.split()]
    containers = start_containers(client, OWNER, images(client), programs)
    tasks = [calibrate(client, containers[DEBIAN], program) for program in programs]
    timings = interleaved(client, containers, tasks)
    with capsys.disabled():
        show(timings, tasks, [name for name in containers if name != DEBIAN])

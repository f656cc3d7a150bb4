"""The interpreter on the engine's own file system, and put out of the page cache there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyperf
import pytest
from docker.errors import NotFound

from interlock.catalog.types import PREFIX
from interlock.engine.agent import LAUNCH
from interlock.engine.protocol import USUAL, Surroundings
from interlock.engine.run import leftovers
from interlock.measure import processes
from interlock.results import store
from interlock.results.experiments import State
from tests.integration.images import NO_THREADS, Images
from tests.integration.resources import said, start
from tests.integration.toys import copy_project, interlock

pytestmark = pytest.mark.slow
OWNER = f"test-cold-{os.getpid()}"
# As a workload with cold benchmarks asks for it: the kernel tells a file's owner alone what of it is in memory.
ON_VOLUME = Surroundings(("root",), prefix_on_volume=True)
FILES = f"find {PREFIX} ! -type d -printf '%P %m %s %T@ %l\\n' | sort"
# What importing json reads from a disk, in bytes, by the kernel's own account of the process.
READ = """
def read():
    return int([line for line in open('/proc/self/io') if line.startswith('read_bytes')][0].split()[1])
before = read()
import json, xml.dom.minidom
print('read %d' % (read() - before))
"""


def test_an_interpreter_that_is_elsewhere_is_the_images_file_by_file(client: Any, built: Images, volume: str) -> None:
    plain, elsewhere = (start(client, OWNER, built[NO_THREADS], volume, given) for given in (USUAL, ON_VOLUME))
    mounted = {cell.id: said(cell, "cat", "/proc/mounts").count(f" {PREFIX} ") for cell in (plain, elsewhere)}
    assert mounted == {plain.id: 0, elsewhere.id: 1}
    files = said(plain, "sh", "-c", FILES).splitlines()
    assert len(files) > 1000
    assert said(elsewhere, "sh", "-c", FILES).splitlines() == files
    assert said(elsewhere, "python", "-c", "import json; print(json.__file__)").startswith(f"{PREFIX}/")
    elsewhere.reload()
    (name,) = [mount["Name"] for mount in elsewhere.attrs["Mounts"] if mount["Destination"] == PREFIX]
    assert client.volumes.get(name)
    leftovers.remove(elsewhere)
    with pytest.raises(NotFound):
        client.volumes.get(name)


def test_after_an_eviction_imports_read_from_the_disk_every_time(client: Any, built: Images, volume: str) -> None:
    cell = start(client, OWNER, built[NO_THREADS], volume, ON_VOLUME)
    python = ["--repeat", "2", "--", "python", "-c", READ]
    cold = said(cell, LAUNCH, "--evict", PREFIX, *python)
    hot = said(cell, LAUNCH, *python)
    read = [[int(line.split()[1]) for line in text.splitlines() if line.startswith("read ")] for text in (cold, hot)]
    # The .pyc files alone are more than 100 kB.
    assert min(read[0]) > 100_000
    assert read[1] == [0, 0]
    assert [cost.resident_share for cost in processes.parse_costs(cold)] == [0, 0]


LIBRARY = """\
summary = "a test's own"
unit = "start"
deadline_s = 60
rights = ["root"]
quick = { warmups = 0, values = 2 }
full = { warmups = 0, values = 2 }
[[benchmarks]]
name = "hot"
command = ["-c", "import xml.dom.minidom; print(open('/proc/mounts').read())"]
expected = [" /usr/local "]  # both read from the volume, else the hot one could be the slower
metric = { label = "ms", scale = 1e3 }
profile_metric = { label = "calls", scale = 1 }
profile_syscalls = "all"
[[benchmarks]]
name = "cold"
command = ["-c", "import xml.dom.minidom; print(open('/proc/mounts').read())"]
expected = [" /usr/local "]
cold = true
metric = { label = "ms", scale = 1e3 }
[[benchmarks]]
name = "parallel"
command = ["-c", "import xml.dom.minidom; print(open('/proc/mounts').read())"]
parallel = 3
metric = { label = "ms", scale = 1e3 }
profile_metric = { label = "calls", scale = 1 }
profile_syscalls = "all"
"""


def test_a_cold_benchmark_is_proved_cold_beside_a_hot_one(
    root: Path, built: Images, nothing_left: None, tmp_path: Path
) -> None:
    project = copy_project(root, tmp_path / "project", [NO_THREADS], [])
    (project / "workloads/own.toml").write_text(LIBRARY)
    interlock(
        project, "matrix", "--variants", NO_THREADS, "--workloads", "own", "--quick", "--rounds", "2",
        "--results", str(tmp_path / "results"),
    )  # fmt: skip
    folder = store.latest_experiment(tmp_path / "results")
    described = store.read_experiment(folder)
    outcomes = {cell.label: cell.benchmarks for cell in described.cells}
    assert {name: one.state for name, one in outcomes[NO_THREADS].items()} == dict.fromkeys(
        ("hot", "cold", "parallel"), State.OK
    )
    file = store.cell_path(folder, described.host["folder"], NO_THREADS, None, "own")
    proofs = {
        one.get_name(): [run.get_metadata().get("interlock_process_resident_share") for run in one.get_runs()]
        for one in pyperf.BenchmarkSuite.load(str(file)).get_benchmarks()
    }
    _, profiles = store.read_cells(folder, described)
    assert proofs["own cold"] == [0, 0]
    assert proofs["own hot"] == [None, None]
    # Twelve at once call what one calls: a start alone is profiled.
    counted = profiles[NO_THREADS, "own"]
    assert counted["parallel"].units == 1
    assert counted["parallel"].calls_per_unit("all") == pytest.approx(counted["hot"].calls_per_unit("all"), rel=0.02)

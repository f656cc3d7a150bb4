"""What Interlock itself costs. Nothing is asserted about time: `nox -s benchmarks` prints the figures.

Needs the engine; the cold builds take about five minutes on two cores.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.analysis import comparison
from interlock.catalog import project as catalogs
from interlock.catalog import rendering
from interlock.catalog.project import ProjectPaths
from interlock.engine.build import builds as building
from interlock.engine.build.helper_images import ensure_helper
from interlock.engine.build.image import run_build
from interlock.engine.docker import DockerEngine, connect
from interlock.engine.protocol import BuildOptions
from interlock.engine.run import containers, execution, leftovers
from interlock.measure import processes
from interlock.results import store
from interlock.results.experiments import State
from tests.integration.toys import interlock

ROOT = Path(__file__).parents[2]
VARIANT = "cpython-2.7-nothreads"
OWNER = "own-cost"
FETCHING = '. "$HERE/fetch.sh"'
FUNCTIONS_END = 'mkdir -p "$BUILD_DIR" "$PREFIX"'
PLAIN = """
PREFIX=/opt/plain; mkdir -p "$PREFIX"; cd "$BUILD_DIR"
fetch {file} {sha256} {places} > /dev/null
unpack {file}
start=$(date +%s.%N)
exec 3>&1 > /dev/null 2>&1
env {environment} ./configure --prefix="$PREFIX" "OPT={optimise}" {flags} && make -j "$JOBS" && make install
exec >&3
echo "$start $(date +%s.%N)"
"""


def test_loading_and_rendering_everything(benchmark: Any) -> None:
    def load_and_render() -> int:
        catalog = catalogs.load(ROOT)
        return len(rendering.generated_files(catalog, catalogs.read_texts(ROOT)))

    assert benchmark(load_and_render) > 20


def test_a_build_in_which_nothing_changed(benchmark: Any) -> None:
    interlock(ROOT, "build", VARIANT)
    done = benchmark.pedantic(lambda: interlock(ROOT, "build", VARIANT), rounds=3)
    assert "unchanged" in done.stdout


def test_reading_an_experiment_and_comparing_it(benchmark: Any) -> None:
    """The reference: every value read, every ratio with its bootstrap."""
    folder = store.latest_experiment(ROOT / "results" / "reference")

    def read_and_compare() -> int:
        described = store.read_experiment(folder)
        return len(comparison.tables(described, *store.read_cells(folder, described)))

    assert benchmark.pedantic(read_and_compare, rounds=5) > 5


def test_writing_a_cell(benchmark: Any, tmp_path: Path) -> None:
    """A file of a cell's size, written whole: temporary file, sync, rename."""
    folder = store.latest_experiment(ROOT / "results" / "reference")
    text = max((path.read_text() for path in folder.glob("*/*/*.json")), key=len)
    benchmark(lambda: store.write_atomically(tmp_path / "cell.json", text))
    assert (tmp_path / "cell.json").read_text() == text


def test_a_container_until_a_process_runs_in_it(benchmark: Any) -> None:
    client = connect().client
    options = BuildOptions(ROOT, ProjectPaths.find().cache)
    (built,) = DockerEngine(client).build(catalogs.load(ROOT), [VARIANT], options, lambda *_: None)
    assert built.base is not None
    image_id = ensure_helper(client, ROOT, "instruments", built.base)
    volume = containers.create_instruments_volume(client, OWNER, image_id, {})

    def ready() -> int | None:
        cell = containers.start_cell(client, built.image_id, containers.CellOptions(OWNER, volume, None))
        return execution.run_process(client, cell, [processes.LAUNCH, "--", "true"], 30).exit_code

    try:
        assert benchmark.pedantic(ready, rounds=5) == 0
    finally:
        leftovers.clean_up(client, OWNER)


def test_a_cold_build_beside_a_plain_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Cold: fetch, compile, slim, prove and tag. Plain: configure, make -j and make install with the same flags."""
    client, catalog = connect().client, catalogs.load(ROOT)
    options = BuildOptions(ROOT, ProjectPaths.find().cache)
    (warm,) = DockerEngine(client).build(catalog, [VARIANT], options, lambda *_: None)
    assert warm.outcome.state is State.OK
    pairs = []
    for _ in range(2):
        plain_s = _plain_build_s(client, catalog, options)
        started = time.monotonic()
        again = replace(options, rebuild=str(time.time_ns()))
        (built,) = DockerEngine(client).build(catalog, [VARIANT], again, lambda *_: None)
        assert built.outcome.state is State.OK
        pairs.append((time.monotonic() - started, plain_s))
    with capsys.disabled():
        for cold_s, plain_s in pairs:
            print(f"\n{VARIANT}: cold {cold_s:.0f} s, plain {plain_s:.0f} s, ratio {cold_s / plain_s:.2f}")


def _plain_build_s(client: Any, catalog: Any, options: BuildOptions) -> float:
    variant = catalog.variants[VARIANT]
    plan = building.ImageBuilder(client, catalog, options, lambda *_: None).plan(variant)
    log: list[str] = []
    toolchain = run_build(
        client, plan.files, log, lambda _: None, buildargs={"BASE": plan.base.reference}, target="toolchain"
    )
    source = variant.interpreter
    functions = plan.files["build.sh"].decode().split(FUNCTIONS_END, maxsplit=1)[0]
    assert FETCHING in functions
    script = functions.replace(FETCHING, plan.files["fetch.sh"].decode()) + PLAIN.format(
        file=source.file,
        sha256=source.sha256,
        places=" ".join(source.places),
        environment=rendering.shell_environment(source),
        optimise=catalog.profiles["standard"].optimise,
        flags=" ".join(rendering.quote(flag) for flag in source.configure),
    )
    container = client.containers.run(
        toolchain, ["sh", "-c", script], detach=True, environment={"JOBS": str(building.make_jobs())}
    )
    try:
        container.wait()
        output = container.logs(stdout=True, stderr=False)
    finally:
        # With the volume that holds the build tree, which `remove=True` would leave behind.
        leftovers.remove(container)
    start, end = output.decode().split()[-2:]
    return float(end) - float(start)

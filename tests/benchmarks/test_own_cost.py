"""What Interlock itself costs. Nothing is asserted about time: `nox -s benchmarks` prints the figures.

Needs the engine; the cold builds take about five minutes on two cores.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from interlock import catalog as catalogs
from interlock import render
from interlock.engine import build as building
from interlock.engine import cells
from interlock.engine.client import connect
from interlock.engine.image import Options, run_build
from interlock.model import State
from interlock.places import Places
from tests.integration.toys import interlock

ROOT = Path(__file__).parents[2]
VARIANT = "cpython-2.7-nothreads"
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
        return len(render.generated_files(catalog, catalogs.templates(ROOT), catalogs.patches(ROOT)))

    assert benchmark(load_and_render) > 20


def test_a_build_in_which_nothing_changed(benchmark: Any) -> None:
    interlock(ROOT, "build", VARIANT)
    done = benchmark.pedantic(lambda: interlock(ROOT, "build", VARIANT), rounds=3)
    assert "unchanged" in done.stdout


def test_a_cold_build_beside_a_plain_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Cold: fetch, compile, slim, prove and tag. Plain: configure, make -j and make install with the same flags."""
    client, catalog = connect(), catalogs.load(ROOT)
    options = Options(ROOT, Places.here().cache, force=True)
    (warm,) = building.build(client, catalog, [VARIANT], Options(ROOT, options.cache), lambda *_: None)
    assert warm.outcome.state is State.OK
    pairs = []
    for _ in range(2):
        plain_s = _plain_build_s(client, catalog, options)
        started = time.monotonic()
        (built,) = building.build(client, catalog, [VARIANT], options, lambda *_: None)
        assert built.outcome.state is State.OK
        pairs.append((time.monotonic() - started, plain_s))
    with capsys.disabled():
        for cold_s, plain_s in pairs:
            print(f"\n{VARIANT}: cold {cold_s:.0f} s, plain {plain_s:.0f} s, ratio {cold_s / plain_s:.2f}")


def _plain_build_s(client: Any, catalog: Any, options: Options) -> float:
    variant = catalog.variants[VARIANT]
    plan = building.make_plan(client, catalog, variant, options, lambda *_: None)
    log: list[str] = []
    toolchain = run_build(
        client, plan.files, log, lambda _: None, buildargs={"BASE": plan.base.reference}, target="toolchain"
    )
    source = variant.interpreter
    script = plan.files["build.sh"].decode().split(FUNCTIONS_END, maxsplit=1)[0] + PLAIN.format(
        file=source.file,
        sha256=source.sha256,
        places=" ".join(source.places),
        environment=render.shell_environment(source),
        optimise=catalog.profiles["standard"].optimise,
        flags=" ".join(render.quote(flag) for flag in source.configure),
    )
    container = client.containers.run(
        toolchain, ["sh", "-c", script], detach=True, environment={"JOBS": str(building.make_jobs(1))}
    )
    try:
        container.wait()
        output = container.logs(stdout=True, stderr=False)
    finally:
        # With the volume that holds the build tree, which `remove=True` would leave behind.
        cells.remove(container)
    start, end = output.decode().split()[-2:]
    return float(end) - float(start)

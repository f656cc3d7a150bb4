"""What goes wrong in one cell or workload, in the real engine: it fails with a sentence, and the others go on."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError

from interlock.catalog.workloads import Workload
from interlock.engine.agent import LAUNCH
from interlock.engine.build.helper_images import ensure_helper
from interlock.engine.ownership import OWNER_LABEL
from interlock.engine.run import leftovers
from interlock.errors import WorkloadError
from interlock.measure.cells import open_session
from interlock.measure.sessions import Resources
from interlock.measure.workload import measure_workload
from interlock.results import store
from interlock.results.experiments import BaseImage, State
from tests.builders import ROOT, edit, make_workload
from tests.integration.images import QUICK, Images
from tests.integration.resources import cell_of, make_resources, subject_of
from tests.integration.toys import GOOD, REPORT, add_workload, copy_project, interlock, toy_variant

OWNER = f"test-misfortune-{uuid.uuid4().hex[:12]}"
CUT_SHORT = f"import sys\nsys.stdout.write('{REPORT[:60]}')\n"
HUNGRY = "found = []\nwhile True:\n    found.append('x' * (16 << 20))\n"
UNTIDY = "file = open('/scratch/file', 'w')\nfor _ in range(900):\n    file.write('x' * (1 << 20))\n"
HANGS = "import time\ntime.sleep(300)\n"
# A download that takes some seconds, so that there is a middle.
PATIENT = """\
import protocol
import time
import urllib.request
parser = protocol.new_parser("patient")
parser.add_option("--server")
options = protocol.parse(parser)
def timed(_loops):
    start = time.time()
    response = urllib.request.urlopen(options.server + "/single.bin")
    expected, found = int(response.info()["Content-Length"]), 0
    while True:
        chunk = response.read(1 << 18)
        if not chunk:
            break
        found += len(chunk)
        time.sleep(0.1)
    if found != expected:
        raise protocol.WorkNotDone("expected %d bytes, found %d" % (expected, found))
    return time.time() - start
protocol.run(lambda _: protocol.Work(timed, 1, {}), options)
"""

FETCH = "import urllib.request; print(len(urllib.request.urlopen('{url}', timeout=5).read()))"
# As /proc/net/tcp writes it: an established connection to port 8080.
DOWNLOADING = ":1F90 [0-9A-F]*:[0-9A-F]* 01 "
# Not the whole server: with its container the network would go, and nobody would tell the client.
KILL_WORKER = 'kill -KILL "$(basename "$(dirname "$(grep -l "nginx: worker proces[s]" /proc/[0-9]*/cmdline)")")"'

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("nothing_left", "quick")]


def test_each_workload_that_goes_wrong_fails_with_its_sentence_and_the_others_go_on(root: Path, tmp_path: Path) -> None:
    """Beside a variant whose source is nowhere."""
    project = copy_project(root, tmp_path / "project", [QUICK], [])
    toy_variant(project, "toy-lost", "lost.tgz", "0" * 64, "https://lost.invalid")
    served, no_number = '["--server", "{server}"]', '[server]\nenvironment = { SINGLE_MIB = "many" }'
    add_workload(project, "a-no-server", PATIENT, served, no_number)
    add_workload(project, "b-cut-short", CUT_SHORT)
    add_workload(project, "c-hungry", HUNGRY)
    add_workload(project, "d-untidy", UNTIDY)
    add_workload(project, "e-chatty", "print('no json here')\n")
    add_workload(project, "f-hangs", HANGS)
    # A benchmark's own deadline goes before the workload's.
    edit(project, "workloads/f-hangs.toml", 'name = "only"\n', 'name = "only"\ndeadline_s = 2\n')
    add_workload(project, "z-good", GOOD)
    interlock(project, "render")
    asked = ("--variants", f"{QUICK},toy-lost", "--quick", "--rounds", "2", "--no-profile")
    done = interlock(project, "matrix", *asked, timeout_s=1500, code=WorkloadError.exit_code)
    assert done.stderr.count("error:") == 1
    folder = store.latest_experiment(project / "results")
    described, report = store.read_experiment(folder), (folder / "report.md").read_text()
    outcomes = {(cell.variant, cell.workload): cell.outcome for cell in described.cells if cell.mode is None}
    failed = ("a-no-server", "b-cut-short", "c-hungry", "d-untidy", "e-chatty")
    assert {name: outcome.state for (variant, name), outcome in outcomes.items() if variant == QUICK} == {
        **dict.fromkeys(failed, State.FAILED),
        "f-hangs": State.TIMED_OUT,
        "z-good": State.OK,
    }
    assert {one.state for (variant, _), one in outcomes.items() if variant == "toy-lost"} == {State.UNAVAILABLE}
    assert "Could not resolve host: lost.invalid" in outcomes["toy-lost", "z-good"].reason
    for name, words in {
        "a-no-server": "dd: invalid number",
        "b-cut-short": '{"interlock": 1,',
        "c-hungry": "1 GiB",
        "d-untidy": "OSError: [Errno 28] No space left on device",
        "e-chatty": "no json here",
        "f-hangs": "2 s",
    }.items():
        assert words in outcomes[QUICK, name].reason
        assert re.search(rf"\b{name}\b.* on {QUICK}", report)
    twin = {cell.workload: cell.outcome.state for cell in described.cells if cell.mode is not None}
    assert twin["a-no-server"] is State.FAILED
    assert twin["z-good"] is State.OK


@pytest.fixture(scope="module")
def shared(client: Any, tmp_path_factory: pytest.TempPathFactory, built: Images) -> Iterator[list[Resources]]:
    """What two experiments have, each set up once as an experiment does it."""
    folder = tmp_path_factory.mktemp("measured")
    programs = {"patient.py": PATIENT.encode(), "good.py": GOOD.encode()}
    owners = [f"{OWNER}-{name}" for name in ("one", "other")]
    try:
        yield [make_resources(client, folder, built[QUICK], owner, programs) for owner in owners]
    finally:
        for owner in owners:
            leftovers.clean_up(client, owner)


def patient(mebibytes: int) -> Workload:
    return make_workload(
        "patient",
        program="patient.py",
        unit="download",
        deadline_s=120,
        quick={"warmups": 0, "values": 1},
        server={"environment": {"SINGLE_MIB": str(mebibytes), "MANY_FILES": "1"}},
        benchmarks=[{"name": "only", "arguments": ["--server", "{server}"], "metric": {"label": "s", "scale": 1}}],
    )


def test_servers_of_two_experiments_have_the_same_port_and_do_not_see_each_other(
    client: Any, built: Images, shared: list[Resources]
) -> None:
    found = {}
    with open_session(shared[0], patient(1)) as one, open_session(shared[1], patient(2)) as other, ExitStack() as ends:
        for name, session in (("one", one), ("other", other)):
            sandbox = ends.enter_context(cell_of(session, subject_of(built[QUICK]))).slot().sandbox
            for where, asked in (("one", one), ("other", other)):
                program = FETCH.format(url=f"{asked.network.url}/single.bin")
                ended = sandbox.run(["python", "-c", program], 60)
                found[name, where] = ended.stdout.strip() if ended.exit_code == 0 else "out of reach"
    assert found == {
        ("one", "one"): str(1 << 20),
        ("other", "other"): str(2 << 20),
        ("one", "other"): "out of reach",
        ("other", "one"): "out of reach",
    }


def close_in_the_middle(client: Any, resources: Resources, base: BaseImage) -> str:
    """As soon as somebody downloads from the server, its end of the connection is killed."""
    image_id = ensure_helper(client, ROOT, "server", base)
    owned = {"label": f"{OWNER_LABEL}={resources.workspace.owner}", "ancestor": image_id}
    limit = time.monotonic() + 300
    while time.monotonic() < limit:
        for server in client.containers.list(filters=owned, ignore_removed=True):
            with suppress(APIError):  # of a server that is not there yet, or no more
                if server.exec_run(["grep", "-q", DOWNLOADING, "/proc/net/tcp"]).exit_code == 0:
                    return "closed" if server.exec_run(["sh", "-c", KILL_WORKER]).exit_code == 0 else "not closed"
        time.sleep(0.1)
    return "nobody has downloaded anything"


def test_a_port_that_closes_mid_download_fails_the_cell_with_a_sentence_and_leaves_the_next_one_alone(
    client: Any, built: Images, shared: list[Resources]
) -> None:
    resources = shared[0]
    subjects = [subject_of(built[QUICK])]
    base = built[QUICK].base
    assert base is not None
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(close_in_the_middle, client, resources, base)
        (cell,) = measure_workload(resources, patient(64), subjects).cells
        assert closing.result() == "closed"
    assert cell.outcome.state is State.FAILED
    assert re.match(r"'only'.*\b1: ", cell.outcome.reason)
    assert "work not done: expected 67108864 bytes, found " in cell.outcome.reason or "reset" in cell.outcome.reason
    good = patient(1).model_copy(update={"name": "good", "program": "good.py", "server": None})
    good = good.model_copy(update={"benchmarks": [good.benchmarks[0].model_copy(update={"arguments": []})]})
    (cell,) = measure_workload(resources, good, subjects).cells
    assert cell.outcome.state is State.OK, cell
    # What leaves no files keeps its container for the workload that comes next; here none does.
    ((slot,),) = resources.waiting.values()
    slot.sandbox.close()
    resources.waiting.clear()


def test_a_container_of_an_experiment_has_a_gibibyte_and_all_of_a_workload_two_in_memory_files(
    client: Any, built: Images, shared: list[Resources]
) -> None:
    with open_session(shared[0], patient(1)) as session, cell_of(session, subject_of(built[QUICK])) as cell:
        sandbox = cell.slot().sandbox
        (server_id,) = session.network.helper_ids
        sizes = 0
        for container_id, place in ((sandbox.id, "/scratch"), (server_id, "/srv/files")):
            container = client.containers.get(container_id)
            limits = container.attrs["HostConfig"]
            assert (limits["Memory"], limits["MemorySwap"]) == (2**30, 2**30)
            sizes += int(container.exec_run(["stat", "-f", "-c", "%b", place]).output) * 4096
    assert 2**30 <= sizes <= 2 * 2**30


@pytest.mark.promise
def test_a_cell_that_had_no_memory_left_is_there_again_for_the_next_process(
    client: Any, built: Images, shared: list[Resources]
) -> None:
    with shared[0].workspace.network(None, load=False) as network:
        sandbox = network.open_sandbox(str(built[QUICK].image_id))
        failed = sandbox.run(["python", "-c", "raise SystemExit(1)"], 30)
        assert (failed.exit_code, failed.out_of_memory) == (1, False)
        hungry = sandbox.run([LAUNCH, "--", "python", "-c", HUNGRY], 60)
    assert hungry.out_of_memory
    assert hungry.took_sandbox
    assert sandbox.id not in {one.id for one in client.containers.list(all=True, ignore_removed=True)}

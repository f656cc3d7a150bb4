"""What puts load on the services of a workload, in a container of its own beside them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from docker.errors import DockerException

from interlock.engine import cells
from interlock.engine.client import OWNER_LABEL
from interlock.engine.output import run_in_workload
from interlock.errors import EngineError, WorkloadError

FILES = "/usr/local/share/interlock"
FIXED_RATE = f"{FILES}/fixed-rate.lua"
DATABASE_PORT = 5432
# For a second, or as long as one answer takes, until one is 2xx; prints the last one and its status, 000 for none.
ASK = (
    'until=$(($(date +%s) + 1)); while :; do answer=$(curl -s -m 5 -w " %{http_code}" "$1"); '
    'case ${answer##* } in 2??) break ;; esac; [ "$(date +%s)" -gt "$until" ] && break; sleep 0.02; done; '
    'printf %s "$answer"'
)
KILL_AFTER_S = 5
TIMED_OUT, KILLED = 124, 128 + 9  # of coreutils' timeout


@dataclass(frozen=True)
class Answer:
    """What a service said, and its HTTP status: 0 if nothing came."""

    body: str
    status: int

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


def start_loader(client: Any, experiment: str, image_id: str, network: str) -> Any:
    """The container that load comes from, with the database; it has CPU 0, as a server has."""
    try:
        return client.containers.run(
            image_id,
            ["python3", f"{FILES}/database.py", str(DATABASE_PORT)],
            detach=True,
            init=True,
            network=network,
            cpuset_cpus="0" if client.info()["NCPU"] > 1 else "",
            labels={OWNER_LABEL: experiment},
            **cells.memory_limits(),
        )
    except DockerException as error:
        raise EngineError(found=f"the engine cannot start the load: {error}", todo="See its log.") from None


def ask(loader: Any, url: str) -> Answer:
    """Asks for about a second until the answer is good: the last one."""
    body, _, status = run_in_workload(loader, ["sh", "-c", ASK, "ask", url]).stdout.rpartition(" ")
    return Answer(body, int(status) if status.isdigit() else 0)


def put(loader: Any, words: Sequence[str], limit_s: float) -> str:
    """What the load printed; WorkloadError unless it ended well in time. Its container outlives it: others need it."""
    done = run_in_workload(loader, ["timeout", "-k", str(KILL_AFTER_S), f"{limit_s:g}", *words])
    if done.exit_code == 0:
        return done.stdout
    if done.exit_code in {TIMED_OUT, KILLED}:
        raise WorkloadError(found=f"the load had not ended after {limit_s:g} s", todo="See the service.")
    last = ((done.stderr + done.stdout).strip().splitlines() or ["it said nothing"])[-1]
    raise WorkloadError(found=f"the load ended with exit code {done.exit_code}: {last}", todo="See dockerfiles/load/.")


def stop(container: Any, folder: str) -> None:
    """SIGTERM to the service that has left its process id there; one that is gone needs none."""
    with suppress(WorkloadError):
        run_in_workload(container, ["sh", "-c", f"kill -TERM $(cat {folder}/service.pid) && rm {folder}/service.pid"])

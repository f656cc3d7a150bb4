"""What a container engine sets up for an experiment: the volume of instruments, networks and cells."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property

from docker import DockerClient
from docker.models.containers import Container
from requests.exceptions import RequestException

from interlock.catalog.types import MOUNT
from interlock.engine.agent import Agent
from interlock.engine.client import engine_errors
from interlock.engine.ended import Ended, last_lines
from interlock.engine.protocol import (
    NOTHING,
    USUAL,
    Answer,
    Counting,
    CpuUsed,
    LoadRun,
    OwnStart,
    StackOptions,
    Surroundings,
    UserSurroundings,
)
from interlock.engine.run import containers, execution, leftovers, profiler, user_containers
from interlock.engine.run.archives import log_of
from interlock.engine.run.execution import Commands
from interlock.engine.run.rights import TMP, TMP_BYTES, USER, without_rights
from interlock.engine.run.user_containers import Place
from interlock.errors import WorkloadError, last_line

FILES = "/usr/local/share/interlock"
DATABASE_PORT = 5432
# Asks for a second, or as long as one answer takes, until an answer is 2xx (with `any`: until there is an answer).
# Prints the last answer's body, unless $3 says where it goes, and its status: 000 for none.
ASK = (
    'until=$(($(date +%s) + 1)); while :; do answer=$(curl -s -m 5 -o "$3" -w " %{http_code}" "$1"); '
    'case ${answer##* } in 2??) break ;; 000) ;; *) [ "$2" = any ] && break ;; esac; '
    '[ "$(date +%s)" -gt "$until" ] && break; sleep 0.02; done; printf %s "$answer"'
)
# Takes the time by the container's own clock, to leave out the engine's start of a process. The line break is there
# because a load may not end its last line.
TIMED = (
    'start=$(date +%s%N); "$@"; code=$?; end=$(date +%s%N); '
    'printf "\\ninterlock %s\\n" "$((end - start))" >&2; exit $code'
)
TOOK = re.compile(r"interlock ([0-9]{1,18})")
# How curl's errors begin. Of parallel transfers the first error says why: the others are aborted because of it.
CURL_ERROR = "curl: ("
KILL_AFTER_S = 5
TIMED_OUT, KILLED = 124, 128 + 9  # of coreutils' timeout


@dataclass(frozen=True)
class ContainerSandbox:
    """A container that idles until a process is started in it."""

    container: Container
    owner: str
    instruments_image_id: str
    network: str | None = None

    @cached_property
    def commands(self) -> Commands:
        """Return what runs short commands here, by the agent: a start by the engine would count as the cell's work."""
        return Commands(self.container)

    @property
    def id(self) -> str:
        return str(self.container.id)

    def run(self, argv: list[str], deadline_s: float, environment: Mapping[str, str] = NOTHING) -> Ended:
        return execution.run_process(self.container, argv, deadline_s, environment)

    def start_agent(self) -> Agent:
        return execution.start_agent(self.container)

    def has_no_memory_left(self) -> bool:
        return execution.ran_out_of_memory(self.container)

    def count(self, stacks: StackOptions | None = None) -> AbstractContextManager[Counting]:
        return profiler.counting(self.instruments_image_id, self.owner, self.container, stacks)

    def mark_work(self) -> AbstractContextManager[None]:
        return profiler.work_marked(self.container)

    def cpu_used(self) -> CpuUsed:
        """Return the CPU time used until now; WorkloadError if the container is gone or shows none."""
        return containers.parse_cpu_used(self.commands.run(["cat", *containers.CPU_FILES]).stdout)

    def memory_bytes(self) -> int:
        """Return the memory of its processes now, without files; WorkloadError if it is gone or shows none."""
        return containers.parse_memory_bytes(self.commands.run(["cat", *containers.MEMORY_FILES]).stdout)

    def address(self) -> str:
        return containers.address_of(self.container, self.network or "")

    def stop_service(self, folder: str) -> None:
        command = f"kill -TERM $(cat {folder}/service.pid) && rm {folder}/service.pid"
        with suppress(WorkloadError):
            self.commands.run(["sh", "-c", command])

    def kill_processes(self) -> None:
        # The agent of the command is killed too, so no answer comes.
        with suppress(WorkloadError):
            self.commands.run(["sh", "-c", "kill -s KILL -- -1"])

    def close(self) -> None:
        leftovers.remove(self.container)


@dataclass(frozen=True)
class OwnContainer(ContainerSandbox):
    """A container that runs what a user's image, or a command in its place, says."""

    def require_running(self, when: str) -> None:
        self.container.reload()
        if self.container.status == "running":
            return
        state = self.container.attrs["State"]
        why = "it ran out of memory (--memory)" if state["OOMKilled"] else f"exit code {state['ExitCode']}"
        ending = f"it ended {when}: {why}; {last_lines(self.log())}"
        raise WorkloadError(found=ending, todo="Fix what its log says.")

    def wait(self, limit_s: float) -> int | None:
        try:
            return int(self.container.wait(timeout=limit_s)["StatusCode"])
        except RequestException:
            return None

    def log(self) -> str:
        return log_of(self.container)

    def gil_lines(self) -> list[str]:
        return user_containers.read_gil_probe(self.container)

    def listening(self) -> list[str]:
        return user_containers.parse_listening(self.commands.run(["cat", *user_containers.SOCKETS]).stdout)


@dataclass(frozen=True)
class ContainerWorkspace:
    """What every cell of an experiment shares: a volume of instruments and programs, and the images of its helpers."""

    client: DockerClient
    owner: str
    instruments_image_id: str
    volume: str | None = None  # None where nothing is measured, as when probes are tried
    helper_image_ids: Mapping[str, str] = field(default_factory=dict)  # of those helpers that are needed
    is_elsewhere: bool = False  # on another machine, whose other processes nobody sees from here
    users: UserSurroundings | None = None  # of a trial

    @contextmanager
    def network(self, server: Mapping[str, str] | None, *, load: bool) -> Iterator[ContainerNetwork]:
        """Make a network without access to the outside if the workload has a server or a load, and none if not.

        A user's own images get one with access, because services ask others when they start, or the one that is named.
        """
        if server is None and not load and self.users is None:
            yield ContainerNetwork(self, None, None)
            return
        client, named = self.client, self.users and self.users.network
        name = named or containers.create_network(client, self.owner, internal=self.users is None)
        helpers: list[Container] = []
        try:
            url, loader, images = None, None, self.helper_image_ids
            if server is not None:
                helpers.append(containers.start_server(client, self.owner, images["server"], name, dict(server)))
                url = containers.server_url(helpers[-1], name)
            if load:
                helpers.append(start_loader(client, self.owner, images["load"], name, self.volume))
                loader = Commands(helpers[-1])
                # A service's server is its database.
                url = f"{containers.address_of(helpers[-1], name)}:{DATABASE_PORT}"
            yield ContainerNetwork(self, name, url, loader, [str(helper.id) for helper in helpers])
        finally:
            for helper in helpers:
                leftovers.remove(helper)
            if not named:
                containers.remove_network(client, name)

    def open_tools_sandbox(self) -> ContainerSandbox:
        return self.open_in(self.instruments_image_id, None, USUAL, NOTHING)

    def open_in(
        self, image_id: str, network: str | None, surroundings: Surroundings, packages: Mapping[str, str]
    ) -> ContainerSandbox:
        if self.users is not None and network is not None:
            idle = OwnStart(image_id, command=containers.IDLE)
            container = user_containers.start_container(self.place_in(network), idle)
        else:
            options = containers.CellOptions(self.owner, self.volume, network, surroundings, packages)
            container = containers.start_cell(self.client, image_id, options)
        return ContainerSandbox(container, self.owner, self.instruments_image_id, network)

    def place_in(self, network: str) -> Place:
        """Return where containers of a user's images are made in this network."""
        return Place(self.client, self.owner, network, self.volume, self.users or UserSurroundings())


@dataclass(frozen=True)
class ContainerNetwork:
    """The network of one workload, with its server or the container that load comes from."""

    workspace: ContainerWorkspace
    name: str | None
    url: str | None
    loader: Commands | None = None  # in the container that load comes from
    helper_ids: Sequence[str] = ()
    can_evict: bool = True

    def open_sandbox(
        self, image_id: str, surroundings: Surroundings = USUAL, packages: Mapping[str, str] = NOTHING
    ) -> ContainerSandbox:
        return self.workspace.open_in(image_id, self.name, surroundings, packages)

    def open_limits_sandbox(self, surroundings: Surroundings = USUAL) -> ContainerSandbox:
        return self.workspace.open_in(self.workspace.helper_image_ids["limits"], self.name, surroundings, NOTHING)

    @contextmanager
    def started(self, start: OwnStart) -> Iterator[OwnContainer]:
        workspace, network = self.workspace, self.name or ""
        container = user_containers.start_container(workspace.place_in(network), start)
        with closing(OwnContainer(container, workspace.owner, workspace.instruments_image_id, network)) as own:
            yield own

    def ask(self, url: str, *, any_answer: bool = False, body: bool = True) -> Answer:
        return ask_service(self._loader().run, url, any_answer=any_answer, body=body)

    def put_load(self, words: Sequence[str], limit_s: float) -> LoadRun:
        return run_load(self._loader().run, words, limit_s, key="--load" if self.workspace.users else "load")

    def load_cpu_used(self) -> CpuUsed:
        return containers.parse_cpu_used(self._loader().run(["cat", *containers.CPU_FILES]).stdout)

    def _loader(self) -> Commands:
        if self.loader is None:
            raise WorkloadError(key="load", found="the workload has no load", todo="Add [load] to its file.")
        return self.loader


def ask_service(run: Callable[[list[str]], Ended], url: str, *, any_answer: bool = False, body: bool = True) -> Answer:
    """Ask for about a second until the answer is 2xx, or until there is any; return the last one."""
    words = ["sh", "-c", ASK, "ask", url, "any" if any_answer else "good", "-" if body else "/dev/null"]
    text, _, status = run(words).stdout.rpartition(" ")
    return Answer(text, int(status) if re.fullmatch("[0-9]{3}", status) else 0)


def run_load(
    run: Callable[[list[str], float], Ended], words: Sequence[str], limit_s: float, key: str = "load"
) -> LoadRun:
    """Run a load to its end; WorkloadError if it fails or takes longer than the limit.

    The container stays, because other loads need it.
    """
    limited = ["timeout", "-k", str(KILL_AFTER_S), f"{limit_s:g}", "sh", "-c", TIMED, "sh", *words]
    began_s = time.monotonic()
    ended = run(limited, limit_s + 4 * KILL_AFTER_S)
    if ended.timed_out or (ended.exit_code in {TIMED_OUT, KILLED} and time.monotonic() - began_s >= limit_s):
        todo = "Check that the service answers every request, or give the load longer (--deadline of a trial)."
        raise WorkloadError(key=key, found=f"the load did not end within {limit_s:g} s", todo=todo)
    printed = [line for line in ended.stderr.splitlines() if line.strip()]
    took = [match for line in printed if (match := TOOK.fullmatch(line))]
    if ended.exit_code != 0:
        rest = [line for line in printed + ended.stdout.splitlines() if not TOOK.fullmatch(line)]
        cause = next((line for line in rest if line.startswith(CURL_ERROR)), "\n".join(rest))
        failure = f"the load ended with exit code {ended.exit_code}: {last_line(cause).strip()}"
        raise WorkloadError(key=key, found=failure, todo="Correct its command, or the service.")
    if not took:
        raise WorkloadError(key=key, found="the load ended, and nothing says when", todo="Correct its command.")
    return LoadRun(ended.stdout, int(took[-1][1]) / 1e9)


def start_loader(client: DockerClient, owner: str, image_id: str, network: str, volume: str | None) -> Container:
    """Start the database that services use; load comes from the same container."""
    with engine_errors("the engine cannot start the load"):
        return containers.start_helper(
            client,
            owner,
            image_id,
            network,
            command=["python3", f"{FILES}/database.py", str(DATABASE_PORT)],
            **without_rights(),
            user=USER,
            read_only=True,
            tmpfs={TMP: f"size={TMP_BYTES},mode=1777"},
            volumes={volume: {"bind": MOUNT, "mode": "ro"}} if volume else {},
        )

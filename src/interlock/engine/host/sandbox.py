"""Cells without containers: a folder each, and processes that see the prefix, the instruments and nothing of the user.

The places that programs know in a container (/interlock, /scratch, ...) are folders of this machine. Words of a command
line and values of an environment that name such a place are translated.
"""

from __future__ import annotations

import os
import secrets
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

import psutil

from interlock.catalog.types import DISK, MOUNT, SCRATCH
from interlock.engine.agent import LAUNCH, MOST_OUTPUT_BYTES, Agent, flood, text_of
from interlock.engine.ended import NOT_FOUND, Ended
from interlock.engine.host import profiler
from interlock.engine.host.account import MYSELF, Account, reading_it
from interlock.engine.host.features import refused
from interlock.engine.host.prefixes import LOCALE, environment_of, symbols_of
from interlock.engine.protocol import NOTHING, Counting, CpuUsed, Feature, StackOptions
from interlock.errors import EngineError, FloodError, UnsupportedHereError

LIMITS_PATH = "/usr/local/bin:/usr/bin:/bin"
# Set for all that a cell starts: a process can leave its group and its session, but not its first environment.
PROCESS_OWNER = "INTERLOCK_PROCESS"
GONE_S = 5
RECEIVE_BYTES = 1 << 16


@dataclass(frozen=True)
class HostSandbox:
    """A folder of this machine for the processes of one cell, and the folders that stand for a container's places."""

    prefix: Path | None  # of the interpreter; none for limits, which are commands of this machine
    folder: Path
    places: Mapping[str, str]
    account: Account = MYSELF
    watched: list[Path] = field(default_factory=list)  # the cgroups that are counted now

    @property
    def id(self) -> str:
        return ""

    def run(self, argv: list[str], deadline_s: float, environment: Mapping[str, str] = NOTHING) -> Ended:
        """Run a command with the sandbox's interpreter; what is left of it afterwards is killed.

        As with a container, a process that had to be killed takes the sandbox with it. UnsupportedHereError names a
        command of a limit that this machine lacks.
        """
        words = self.account.command([translated(word, self.places) for word in argv])
        for cgroup in self.watched:
            words = [*profiler.JOIN, str(cgroup), *words]
        ended = run_process(words, deadline_s, self._environment(environment), self.folder)
        if ended.took_sandbox:
            self.close()
        if self.prefix is None and ended.exit_code == NOT_FOUND:
            raise UnsupportedHereError(
                found=f"this machine lacks it: {ended.stderr.strip()}", todo="Install it, or choose --engine docker."
            )
        return ended

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        limits = {"PATH": f"{self.places[MOUNT]}/limits:{LIMITS_PATH}", "LANG": LOCALE}
        own = environment_of(self.prefix) if self.prefix else limits
        home = {"HOME": str(self.folder), "TMPDIR": self.places[SCRATCH]}
        return own | home | {name: translated_list(value, self.places) for name, value in more.items()}

    def start_agent(self) -> Agent:
        words = self.account.command([translated(LAUNCH, self.places), "--agent"])
        channel = ProcessChannel(words, self._environment(NOTHING), self.folder)
        return Agent(
            channel,
            lambda word: translated(word, self.places),
            lambda setting: translated_list(setting, self.places),
        )

    def has_no_memory_left(self) -> bool:
        """Return False: only a container's memory is limited."""
        return False

    @contextmanager
    def count(self, stacks: StackOptions | None = None) -> Iterator[Counting]:
        """Count what `run` starts in the block; UnsupportedHereError where this machine has no BPF for it."""
        program, memory = Path(self.places[MOUNT], "profiler", "profiler"), self.folder.parent
        symbols = symbols_of(self.prefix) if self.prefix else None
        words = [*(stacks.arguments() if stacks else []), *(["--symbols", str(symbols)] if symbols else [])]
        with (
            profiler.cgroup_of_its_own(f"{memory.name}.{self.folder.name}") as cgroup,
            profiler.counting(program, cgroup, words, memory) as at_work,
        ):
            self.watched.append(cgroup)
            try:
                yield at_work
            finally:
                self.watched.remove(cgroup)

    def mark_work(self) -> AbstractContextManager[None]:
        raise refused(Feature.SERVICES)

    def cpu_used(self) -> CpuUsed:
        raise refused(Feature.CPU_TIME)

    def memory_bytes(self) -> int:
        raise refused(Feature.SERVICES)

    def address(self) -> str:
        raise refused(Feature.SERVICES)

    def stop_service(self, folder: str) -> None:
        raise refused(Feature.SERVICES)

    def kill_processes(self) -> None:
        raise refused(Feature.SERVICES)

    def close(self) -> None:
        """Kill what an agent has started, and remove all that processes wrote."""
        end_all_in(self.folder)
        for folder in (self.folder, Path(self.places[DISK])):
            shutil.rmtree(folder, ignore_errors=True)


def open_sandbox(prefix: Path | None, tools: Path, disk: Path, memory: Path, account: Account = MYSELF) -> HostSandbox:
    """Open a sandbox with the instruments, in a folder on a disk and one in memory.

    EngineError if its folders cannot be made; then none of them is left.
    """
    name = f"cell-{secrets.token_hex(4)}"
    folder, on_disk = memory / name, disk / name
    try:
        folder.mkdir(mode=0o700)
        (folder / "scratch").mkdir()
        on_disk.mkdir(parents=True)
        account.give(folder, folder / "scratch", on_disk)
    except OSError as error:
        for made in (folder, on_disk):
            shutil.rmtree(made, ignore_errors=True)
        raise EngineError(
            found=f"the folder of a cell cannot be created: {error}",
            todo=f"Free space there, or give this user write permission: `df -h {memory} {disk}`.",
        ) from None
    places = {MOUNT: str(tools), SCRATCH: str(folder / "scratch"), DISK: str(on_disk)}
    return HostSandbox(prefix, folder, places, account)


def translated(word: str, places: Mapping[str, str]) -> str:
    """Replace a container's place, at the beginning of a path, with this machine's folder."""
    for place, here in places.items():
        if word == place or word.startswith(f"{place}/"):
            return here + word[len(place) :]
    return word


def translated_list(value: str, places: Mapping[str, str]) -> str:
    """Translate each path of a list separated by colons."""
    return ":".join(translated(entry, places) for entry in value.split(":"))


def run_process(argv: list[str], deadline_s: float, environment: Mapping[str, str], folder: Path) -> Ended:
    """Run argv to its end or to the deadline; in both cases kill what it started and left behind."""
    owner = secrets.token_hex(8)
    owned = {**environment, PROCESS_OWNER: owner}
    process = _start(argv, owned, folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    late = flooded = False
    stdout, stderr = bytearray(), bytearray()
    with process:
        try:
            _read_to_end(process, (stdout, stderr), time.monotonic() + deadline_s)
        except subprocess.TimeoutExpired:
            late = True
        except FloodError:
            flooded = True
        finally:
            _kill_all(lambda process: process.environ().get(PROCESS_OWNER) == owner)
    # As engines and shells report a signal: 128 plus its number.
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    if flooded:
        return Ended(None, flooded=True)
    return Ended(None if late else code, text_of(stdout), text_of(stderr), late)


def _start(
    argv: list[str], environment: Mapping[str, str], folder: Path, *, stdin: int, stderr: int
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, whose stdout is a pipe; EngineError if it cannot be started."""
    try:
        return subprocess.Popen(
            argv,
            env=environment,
            cwd=folder,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise EngineError(
            found=f"a process could not be started: {error}", todo="Run `interlock doctor`: it names what is missing."
        ) from None


def _read_to_end(process: subprocess.Popen[bytes], into: tuple[bytearray, bytearray], limit_s: float) -> None:
    """Put what a process prints on stdout and stderr into the two buffers, until it has ended.

    TimeoutExpired if it still runs at `limit_s` of the monotonic clock, FloodError once it prints too much.
    """
    streams = dict(zip((cast(IO[bytes], process.stdout), cast(IO[bytes], process.stderr)), into, strict=True))
    while streams:
        left_s = limit_s - time.monotonic()
        ready, _, _ = select.select(list(streams), [], [], max(left_s, 0))
        if left_s <= 0 or not ready:
            raise subprocess.TimeoutExpired(process.args, left_s)
        for stream in ready:
            data = os.read(stream.fileno(), RECEIVE_BYTES)
            streams[stream] += data
            if len(streams[stream]) > MOST_OUTPUT_BYTES:
                raise flood()
            if not data:
                del streams[stream]
    process.wait(max(limit_s - time.monotonic(), 0.001))


class ProcessChannel:
    """The stdin and the stdout of a process of this machine."""

    def __init__(self, argv: list[str], environment: Mapping[str, str], folder: Path) -> None:
        self._process = _start(argv, environment, folder, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._input, self._output = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._input.write(view) :]

    def receive(self, limit_s: float) -> bytes:
        """Return the next bytes of its stdout; none once it has ended. TimeoutError after `limit_s` seconds."""
        ready, _, _ = select.select([self._output], [], [], limit_s)
        if not ready:
            raise TimeoutError
        return os.read(self._output.fileno(), RECEIVE_BYTES)


def end_all_in(folder: Path) -> None:
    """Kill every process that runs in the folder or whose environment names a path in it.

    Both are needed: a server overwrites its environment with its title, but its working folder stays.
    """
    mark = f"{folder}/"
    _kill_all(
        lambda process: (
            any(mark in value for value in process.environ().values()) or Path(process.cwd()).is_relative_to(folder)
        )
    )


def _kill_all(belongs: Callable[[psutil.Process], bool]) -> None:
    """Kill these processes until none is left; EngineError if one cannot be killed."""
    limit = time.monotonic() + GONE_S
    while processes := list(_processes(belongs)):
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if time.monotonic() > limit:
            numbers = [process.pid for process in processes]
            raise EngineError(
                found=f"processes {numbers} do not end",
                todo="Kill them: `ps -o pid,stat,wchan,args -p PID` shows what they wait for.",
            )
        time.sleep(0.005)


def _processes(belongs: Callable[[psutil.Process], bool]) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        # Other users' processes cannot be read, and any process may end meanwhile.
        with suppress(psutil.Error):
            with reading_it(process):
                is_meant = belongs(process)
            if is_meant:
                yield process

"""The launcher as a sandbox's agent: processes are started, fed and reaped without the engine in between.

The requests and answers are those of dockerfiles/instruments/agent.h.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from interlock.catalog.types import MOUNT
from interlock.engine.ended import Ended
from interlock.errors import EngineError, FloodError
from interlock.untrusted import parse_json

# The launcher's path in every sandbox.
LAUNCH = f"{MOUNT}/launch"
MOST_PROCESSES = 256
# The most that is read from one process's stdout, and from its stderr.
MOST_OUTPUT_BYTES = 16 * 2**20
# The first line of an answer is far shorter.
MOST_HEADER_BYTES = 100


ANSWERS = {"out", "err", "end"}


class Channel(Protocol):
    """The stdin and the stdout of a running agent."""

    def send(self, data: bytes) -> None: ...

    def receive(self, limit_s: float) -> bytes:
        """Return the next bytes, at least one; none once the agent has ended. TimeoutError after `limit_s` seconds."""
        ...


class ProcessTimeoutError(Exception):
    """A process did not answer, or did not end, in time."""


def text_of(data: bytes | bytearray) -> str:
    """Return what was printed as text; bytes that are not UTF-8 are replaced."""
    return data.decode("utf-8", "replace")


@dataclass(eq=False)
class Process:
    """A process that an agent has started; `cost` is the launcher's line about it, once it has ended."""

    agent: Agent
    number: int
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    cost: str = ""
    read: int = 0  # bytes of stdout that were returned as lines
    is_closed: bool = False  # its stdin

    @property
    def exit_code(self) -> int:
        """Return its exit code, 127 if it could not be started; EngineError if the launcher does not report one."""
        try:
            return int(parse_json(self.cost)["interlock_process"]["exit_code"])
        except (ValueError, LookupError, TypeError):
            raise _gone() from None

    @property
    def ended(self) -> Ended:
        """Return how it ended and what it printed; EngineError as for `exit_code`."""
        return Ended(self.exit_code, text_of(self.stdout), text_of(self.stderr))

    def tell(self, line: str) -> None:
        """Send a line to its stdin."""
        self.agent.ask("tell", self.number, f"{line}\n".encode())

    def line(self, limit_s: float) -> str | None:
        """Return the next line that it prints, None if it ends first; ProcessTimeoutError after `limit_s` seconds."""
        self.agent.wait(lambda: bool(self.cost) or b"\n" in self.stdout[self.read :], limit_s)
        end = self.stdout.find(b"\n", self.read)
        if end < 0:
            return None
        line = bytes(self.stdout[self.read : end])
        self.read = end + 1
        return text_of(line)

    def ask(self, line: str, limit_s: float) -> str | None:
        """Send a line and return the answer, None if it ends first; ProcessTimeoutError as for `line`."""
        self.tell(line)
        return self.line(limit_s)

    def close(self) -> None:
        """Close its stdin, unless it is closed or the process has ended."""
        if not self.cost and not self.is_closed:
            self.agent.ask("close", self.number)
        self.is_closed = True

    def end(self, limit_s: float) -> None:
        """Close its stdin and wait for its end; ProcessTimeoutError after `limit_s` seconds."""
        self.close()
        self.wait(limit_s)

    def wait(self, limit_s: float) -> None:
        """Wait for its end; ProcessTimeoutError after `limit_s` seconds."""
        self.agent.wait(lambda: bool(self.cost), limit_s)


class Agent:
    """Speaks with the launcher in one sandbox. EngineError once it is gone."""

    def __init__(self, channel: Channel, word: Callable[[str], str] = str, setting: Callable[[str], str] = str) -> None:
        """`word` and `setting` translate a command line's words and an environment's values for the sandbox."""
        self._channel, self._word, self._setting = channel, word, setting
        self._received = bytearray()
        self._processes: dict[int, Process] = {}

    def start(self, options: Sequence[str], argv: Sequence[str], environment: Mapping[str, str]) -> Process:
        """Start a program with the launcher's options."""
        number = next(number for number in range(MOST_PROCESSES) if number not in self._processes)
        settings = [f"{name}={self._setting(value)}" for name, value in environment.items()]
        words = [*settings, *(self._word(word) for word in (*options, "--", *argv))]
        self._processes[number] = process = Process(self, number)
        self.ask("start", number, b"".join(word.encode() + b"\0" for word in words))
        return process

    def drop(self, files: Sequence[str]) -> None:
        """Drop these files from the page cache; pages that a process has mapped, or that cannot be dropped, stay."""
        self.ask("drop", 0, b"".join(file.encode() + b"\0" for file in files))

    def ask(self, what: str, number: int, data: bytes = b"") -> None:
        """Send a request; EngineError if nobody is there."""
        try:
            self._channel.send(f"{what} {number} {len(data)}\n".encode() + data)
        except OSError:
            raise _gone() from None

    def wait(self, until: Callable[[], bool], limit_s: float) -> None:
        """Take answers until `until` holds; ProcessTimeoutError after `limit_s`, FloodError for too much output."""
        end = time.monotonic() + limit_s
        while not until():
            left_s = end - time.monotonic()
            if left_s <= 0:
                raise ProcessTimeoutError
            try:
                received = self._channel.receive(left_s)
            except TimeoutError:
                raise ProcessTimeoutError from None
            except OSError:
                raise _gone() from None
            if not received:
                raise _gone()
            self._received += received
            self._take_answers()

    def _take_answers(self) -> None:
        while (end := self._received.find(b"\n", 0, MOST_HEADER_BYTES)) >= 0:
            what, process, stop = self._header(end)
            if len(self._received) < stop:
                return
            data = bytes(self._received[end + 1 : stop])
            del self._received[:stop]
            self._take(what, process, data)
        if len(self._received) > MOST_HEADER_BYTES:
            raise _gone()

    def _header(self, end: int) -> tuple[str, Process, int]:
        """Return an answer's kind, its process and its end; EngineError if it is not an answer of the launcher."""
        try:
            what, number, count = self._received[:end].decode().split()
            if what not in ANSWERS or not 0 <= int(count) <= MOST_OUTPUT_BYTES:
                raise _gone()
            return what, self._processes[int(number)], end + 1 + int(count)
        except (ValueError, KeyError):
            raise _gone() from None

    def _take(self, what: str, process: Process, data: bytes) -> None:
        if what == "end":
            process.cost = text_of(data)
            del self._processes[process.number]
            return
        stream = process.stdout if what == "out" else process.stderr
        stream += data
        if len(stream) > MOST_OUTPUT_BYTES:
            raise flood()


def flood() -> FloodError:
    """Return the error for a process that printed too much."""
    printed = f"it printed more than {MOST_OUTPUT_BYTES // 2**20} MiB"
    return FloodError(found=printed, todo="Let it print less, or write to a file.")


def _gone() -> EngineError:
    return EngineError(
        found="the agent of a cell is gone", todo="See the engine's log (of Docker: `journalctl -u docker`)."
    )

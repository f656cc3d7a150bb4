"""Slots: places where processes run, each a sandbox with its agent; a workload leaves its slots to the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from interlock.engine.agent import Agent, Process, ProcessTimeoutError, text_of
from interlock.engine.ended import Ended
from interlock.engine.protocol import Sandbox
from interlock.errors import EngineError, FloodError
from interlock.measure.processes import parse_costs

Answer = TypeVar("Answer")


@dataclass(eq=False)
class Slot:
    """A place where processes of one row run, in a sandbox that is opened anew if one of them had to be killed."""

    open_sandbox: Callable[[], Sandbox]
    sandbox: Sandbox
    agent: Agent | None = None  # of the sandbox, once one is needed
    ready: set[str] = field(default_factory=set)  # benchmarks whose set-up has run in this sandbox

    def run(self, argv: list[str], deadline_s: float, environment: Mapping[str, str]) -> Ended:
        """Run a command line to its end or the deadline."""
        ended = self.sandbox.run(argv, deadline_s, environment)
        if ended.took_sandbox:
            self.replace()
        return ended

    def start(self, options: Sequence[str], argv: Sequence[str], environment: Mapping[str, str]) -> Process:
        """Start a process by the agent, with these options of the launcher."""
        return self._agent().start(options, argv, environment)

    def renew_pages(self, files: Sequence[str]) -> None:
        """Let files be read anew, to other pages of the memory."""
        try:
            self._agent().drop(files)
        except EngineError:
            self.agent = None  # the process that is started next gets a new one, or says why there is none

    def _agent(self) -> Agent:
        if self.agent is None:
            self.agent = self.sandbox.start_agent()
        return self.agent

    def answer_of(self, process: Process, ask: Callable[[], Answer]) -> tuple[Answer | None, Ended | None]:
        """Return what a process answers, or how it has ended because no answer came."""
        try:
            return ask(), None
        except ProcessTimeoutError:
            return None, Ended(None, text_of(process.stdout), text_of(process.stderr), timed_out=True)
        except FloodError:
            return None, Ended(None, flooded=True)
        except EngineError as error:
            # Only this row fails; its next process gets a new agent.
            self.agent = None
            starved = self.sandbox.has_no_memory_left()
            return None, Ended(1, text_of(process.stdout), error.found, out_of_memory=starved)

    def end_of(self, process: Process) -> Ended:
        """Return how a process ended, as the launcher says it."""
        stdout = text_of(process.stdout) + process.cost
        said = parse_costs(process.cost)
        if not said:
            return Ended(1, stdout, "the launcher does not say how it ended")
        code = said[0].exit_code
        starved = code != 0 and self.sandbox.has_no_memory_left()
        return Ended(code, stdout, text_of(process.stderr), out_of_memory=starved)

    def replace(self) -> None:
        """Close the sandbox, with all that runs in it, and open a new one."""
        self.sandbox.close()
        self.sandbox, self.agent = self.open_sandbox(), None
        self.ready.clear()

"""Short commands in a container that stays: by the launcher's agent, without the engine's start of a process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docker import DockerClient
from docker.models.containers import Container

from interlock.engine.agent import Agent, ProcessTimeoutError, text_of
from interlock.engine.protocol import NOTHING, Ended
from interlock.engine.run import containers
from interlock.errors import EngineError, FloodError, WorkloadError

# What reads a file or sends a signal takes milliseconds; what asks a service takes a second, or as long as one answer.
SHORT_S = 60


@dataclass
class Commands:
    """Runs commands, one at a time, in a container that has the instruments; its agent starts with the first one."""

    client: DockerClient
    container: Container
    agent: Agent | None = None

    def run(self, argv: Sequence[str], deadline_s: float = SHORT_S) -> Ended:
        """Run argv to its end or the deadline, where it is left alone; WorkloadError if the container is gone."""
        try:
            if self.agent is None:
                self.agent = containers.start_agent(self.client, self.container)
            process = self.agent.start([], argv, NOTHING)
            process.wait(deadline_s)
            return Ended(process.exit_code, text_of(process.stdout), text_of(process.stderr), False)
        except ProcessTimeoutError:
            return Ended(None, "", "", True)
        except (EngineError, FloodError) as error:
            self.agent = None
            found = f"{argv[0]} cannot be run in a container: {error.found}"
            raise WorkloadError(found=found, todo=error.todo) from None

"""Services that are measured: the load on a workload's service, and what a trial does with a user's own image."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from interlock.catalog.types import Data


class Load(Data):
    """Requests on a service, each time once it is healthy and warm.

    First requests at a benchmark's fixed rate, at which its latencies are measured; then as many as it answers.
    """

    connections: int = Field(ge=1, description="Connections that ask at the same time.")
    warm_up_requests: int = Field(ge=1, description="Requests before the measurement, over these connections.")
    quick_s: int = Field(ge=1, description="Seconds of each of the two loads with --quick.")
    full_s: int = Field(ge=1, description="Seconds of each of the two loads otherwise.")


class ServiceAddress(Data):
    """Where a service answers; `host` is the host name in requests, empty for the container's address."""

    port: int
    path: str = "/"
    host: str = ""
    any_answer: bool = False  # whether any answer shows that it is healthy, whatever the status

    def base(self, address: str) -> str:
        """Return the URL without a path; `address` is the container's."""
        return f"http://{self.host or address}:{self.port}"

    def url(self, address: str) -> str:
        """Return the URL that tells whether the service is healthy."""
        return self.base(address) + self.path


def cpus_in(text: str, cores: int) -> int:
    """Return how many CPUs a text in the engine's syntax names, such as 1-3; an empty text means all `cores`."""
    first, _, last = text.partition("-")
    return int(last or first) - int(first) + 1 if first else cores


class Probed(Data):
    """How a service is loaded and decided, as the user's own showed before anything was timed."""

    slice_s: int | None = None  # how long wrk runs in a slice; None: a slice is the whole load as it was given
    turns: int = 1  # slices of each row in a round
    idle_cpus: float = 0.0  # CPUs that it uses without load, if it never gets quiet
    decides: Literal["time", "cpu"] = "time"  # per unit of work: CPU time where the load does not fill the service


class UserWork(Data):
    """What a trial times in a user's own image, each time in a new container: its service, or a command in it."""

    address: ServiceAddress | None = None  # of the service; None: the command of the benchmark is timed
    load: list[str] | None = None  # words, with {url}; None: the service's start is timed
    healthy_within_s: float = 60
    cpus: str = ""  # of the service, in the engine's words: 1-3; empty for those of the trial
    probed: Probed = Probed()

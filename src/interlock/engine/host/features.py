"""What this machine as the engine cannot do: one list, for whoever asks beforehand and for whoever tries."""

from __future__ import annotations

from interlock.engine.host import profiler, toolchain
from interlock.engine.protocol import Feature
from interlock.errors import UnsupportedHereError

CHOOSE = "Choose --engine docker or podman."
ONLY_IN_CONTAINERS = {
    Feature.SERVICES: "services run in containers",
    Feature.LOAD: "the load on a service needs a container engine",
    Feature.USER_IMAGES: "a user's image needs a container engine",
    Feature.WHOLE_CORE: "what of the core set needs containers is left out",
    Feature.IMAGES: "each machine builds for itself",
    Feature.CPU_TIME: "only a container's CPU time is counted",
}


def cannot(feature: Feature) -> UnsupportedHereError | None:
    """Return the error for a feature that this machine lacks; None if it has it."""
    if feature in ONLY_IN_CONTAINERS:
        return refused(feature)
    try:
        profiler.require_bpf()
    except UnsupportedHereError as error:
        if feature is Feature.STACKS:
            return error
        if toolchain.missing(toolchain.PROBE):
            problem = "neither strace nor BPF is here: no system call is counted"
            return UnsupportedHereError(found=problem, todo=f"{toolchain.install_command(toolchain.PROBE)}.")
    return None


def refused(feature: Feature) -> UnsupportedHereError:
    """Return the error for a feature that only containers have."""
    return UnsupportedHereError(key="engine host", found=ONLY_IN_CONTAINERS[feature], todo=CHOOSE)

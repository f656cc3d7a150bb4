"""What is put into a cell's container to start and watch processes: command lines, and reading what they print."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from interlock.errors import WorkloadError
from interlock.model import MOUNT, SCRATCH, Benchmark, ProcessCost, ProgramOutput, Repetition, Workload

LAUNCH = f"{MOUNT}/launch"
IDLE = [LAUNCH, "--idle"]
# strace travels with its own loader and libraries, so that it runs in any image.
STRACE = [
    f"{MOUNT}/strace/ld.so", "--library-path", f"{MOUNT}/strace", f"{MOUNT}/strace/strace",
    "-f", "-c", "-U", "calls,errors,name",
]  # fmt: skip
STRACE_FUTEX = [*STRACE, "--seccomp-bpf", "-e", "trace=futex"]


def interpreter_argv(
    workload: Workload, benchmark: Benchmark, server: str | None, loops: str, take: Repetition | None
) -> list[str]:
    """The interpreter's command line: the benchmark's command, or the program with the protocol's options.

    `take` is None for a process that measures nothing (calibration and profile): no warm-up and no value but the
    loops asked for.
    """
    if benchmark.command is not None:
        return ["python", *benchmark.command]
    places = {"{server}": server or "", "{scratch}": SCRATCH}
    arguments = [places.get(argument, argument) for argument in benchmark.arguments]
    warmups, values = (take.warmups, take.values) if take else (0, 0 if loops == "auto" else 1)
    return [
        "python", f"{MOUNT}/workloads/{workload.program}", *arguments,
        "--loops", loops, "--warmups", str(warmups), "--values", str(values),
    ]  # fmt: skip


def with_options(argv: Sequence[str], options: Sequence[str]) -> list[str]:
    """The interpreter's command line with a mode's options, which must come before its arguments."""
    python, *arguments = argv
    return [python, *options, *arguments]


def traced_argv(strace: Sequence[str], argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """strace around an interpreter's command line; the environment reaches the interpreter alone.

    strace's own loader would take LD_PRELOAD for strace.
    """
    settings = [word for name, value in environment.items() for word in ("-E", f"{name}={value}")]
    return [*strace, *settings, *argv]


def launch_argv(argv: list[str], benchmark: Benchmark, repeat: int = 1, *, count: bool = False) -> list[str]:
    """The launcher around an interpreter's command line; `count` asks it for the instructions."""
    pin = ["--cpu", "last"] if benchmark.cpus == "one" else []
    discard = ["--discard-stdout"] if benchmark.command is not None else []
    counting = ["--count-instructions"] if count else []
    return [LAUNCH, "--repeat", str(repeat), *pin, *discard, *counting, "--", *argv]


def parse_costs(stdout: str) -> list[ProcessCost]:
    """The launcher's lines, one for each process."""
    return [
        ProcessCost.model_validate(json.loads(line)["interlock_process"])
        for line in stdout.splitlines()
        if line.startswith('{"interlock_process"')
    ]


def parse_program(stdout: str, workload: Workload, *, may_idle: bool = False) -> ProgramOutput:
    """The protocol's line of a workload program; WorkloadError shows what was printed instead.

    `may_idle` admits a report of no loops, which is what a traced set-up is.
    """
    lines = [line for line in stdout.splitlines() if not line.startswith('{"interlock_process"')]
    last = lines[-1] if lines else ""
    try:
        output = ProgramOutput.model_validate_json(last)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        detail = f"its key '{key}': {problem['msg']}" if key else problem["msg"]
        raise _no_protocol_line(workload, last, detail) from None
    if output.loops == 0 and output.unsupported is None and not may_idle:
        raise _no_protocol_line(workload, last, "its key 'loops': no work was done")
    return output


def _no_protocol_line(workload: Workload, last: str, detail: str) -> WorkloadError:
    return WorkloadError(
        file=f"workloads/{workload.name}.toml",
        key="program",
        found=f"{workload.program} printed no protocol line: its last line is {last[:80]!r} ({detail})",
        todo="Its last line of output must be the JSON object that workloads/protocol.py prints.",
    )

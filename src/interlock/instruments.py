"""What is put into a cell's container to start and watch processes: command lines, and reading what they print."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from interlock import bring
from interlock.errors import WorkloadError
from interlock.model import (
    DISK,
    MOUNT,
    PREFIX,
    SCRATCH,
    Benchmark,
    Limit,
    ProcessCost,
    ProgramOutput,
    Repetition,
    Workload,
)

LAUNCH = f"{MOUNT}/launch"
LAUNCHED = '{"interlock_process"'  # how each of its lines begins
WORKLOADS = f"{MOUNT}/workloads"
IDLE = [LAUNCH, "--idle"]
# strace travels with its own loader and libraries, so that it runs in any image.
STRACE = [
    f"{MOUNT}/strace/ld.so", "--library-path", f"{MOUNT}/strace", f"{MOUNT}/strace/strace",
    "-f", "-c", "-U", "calls,errors,name",
]  # fmt: skip
STRACE_FUTEX = [*STRACE, "--seccomp-bpf", "-e", "trace=futex"]


def interpreter_argv(
    workload: Workload,
    benchmark: Benchmark,
    places: Mapping[str, str],
    loops: str,
    take: Repetition | None,
) -> list[str]:
    """The interpreter's command line: the benchmark's command, or the program with the protocol's options.

    `take` is None for a process that measures nothing (calibration and profile): no warm-up and no value but the
    loops asked for.
    """
    if workload.is_brought:
        return bring.argv(workload, benchmark, loops, take)
    if benchmark.command is not None:
        command = [_with_places(word, places) for word in benchmark.command]
        return command if workload.kind == "command" else ["python", *command]
    arguments = [_with_places(argument, places) for argument in benchmark.arguments]
    warmups, values = (take.warmups, take.values) if take else (0, 0 if loops == "auto" else 1)
    return [
        "python", f"{WORKLOADS}/{workload.program_of(benchmark)}", *arguments,
        "--loops", loops, "--warmups", str(warmups), "--values", str(values),
    ]  # fmt: skip


def places_of(server: str | None = None, packages: str = "") -> dict[str, str]:
    """What stands in arguments for what only a cell knows."""
    return {
        "{server}": server or "",
        "{scratch}": SCRATCH,
        "{disk}": DISK,
        "{prefix}": PREFIX,
        "{packages}": packages,
        "{workloads}": WORKLOADS,
    }


def set_up_argv(benchmark: Benchmark, places: Mapping[str, str]) -> list[str]:
    """The interpreter's command line of what is run before a benchmark."""
    return ["python", *(_with_places(word, places) for word in benchmark.set_up)]


def limit_argv(limit: Limit, server: str | None) -> list[str]:
    """The command line of a limit; places may be parts of its words."""
    places = {"{server}": server or "", "{scratch}": SCRATCH, "{disk}": DISK}
    return [_with_places(word, places) for word in limit.command]


def _with_places(word: str, places: Mapping[str, str]) -> str:
    for name, place in places.items():
        word = word.replace(name, place)
    return word


def with_options(argv: Sequence[str], options: Sequence[str]) -> list[str]:
    """The interpreter's command line with a mode's options, which must come before its arguments.

    A command line that does not start with the interpreter stays as it is.
    """
    program, *arguments = argv
    return [program, *options, *arguments] if program == "python" else list(argv)


def takes_options(workload: Workload, benchmark: Benchmark) -> bool:
    """Whether a benchmark's command line starts with the interpreter, so that a mode's options reach it."""
    return workload.kind != "command" or (benchmark.command or [""])[0] == "python"


def traced_argv(strace: Sequence[str], argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """strace around an interpreter's command line; the environment reaches the interpreter alone.

    strace's own loader would take LD_PRELOAD for strace.
    """
    settings = [word for name, value in environment.items() for word in ("-E", f"{name}={value}")]
    return [*strace, *settings, *argv]


def launch_argv(  # noqa: PLR0913  each is an option of the launcher
    argv: list[str],
    benchmark: Benchmark,
    repeat: int = 1,
    *,
    parallel: int = 1,
    count: bool = False,
    keep_output: bool = False,
) -> list[str]:
    """The launcher around an interpreter's command line; `count` asks it for the instructions.

    What a command prints is thrown away unless it is to be kept: reading it would be timed as well.
    """
    at_once = ["--parallel", str(parallel)] if parallel > 1 else []
    evicted = ["--evict", PREFIX] if benchmark.cold else []
    pin = ["--cpu", "last"] if benchmark.cpus == "one" else []
    discard = ["--discard-stdout"] if benchmark.command is not None and not keep_output else []
    counting = ["--count-instructions"] if count else []
    return [LAUNCH, "--repeat", str(repeat), *at_once, *pin, *evicted, *discard, *counting, "--", *argv]


def parse_costs(stdout: str) -> list[ProcessCost]:
    """The launcher's lines, one for each process."""
    return [
        ProcessCost.model_validate(json.loads(line)["interlock_process"])
        for line in _lines(stdout)
        if line.startswith(LAUNCHED)
    ]


def printed(stdout: str) -> list[str]:
    """The lines that are not the launcher's."""
    return [line for line in _lines(stdout) if line and not line.startswith(LAUNCHED)]


def _lines(stdout: str) -> list[str]:
    """What a process printed last need not end its line: the launcher's follows at once."""
    return stdout.replace(LAUNCHED, f"\n{LAUNCHED}").splitlines()


def parse_program(stdout: str, workload: Workload, *, may_idle: bool = False) -> ProgramOutput:
    """The protocol's line of a workload program; WorkloadError shows what was printed instead.

    `may_idle` admits a report of no loops, which is what a traced set-up is.
    """
    lines = printed(stdout)
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

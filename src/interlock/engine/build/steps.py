"""A Dockerfile in fewer steps, for the same image. Pure.

After each step Docker's classic builder looks at every file of the image: 2 to 7 s with a storage driver that is slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

# An instruction with its continuation lines; comments and empty lines do not match.
INSTRUCTION = re.compile(r"^[A-Z]+ (?:.*\\\n)*.*$", re.MULTILINE)
# Only these may be filled in, because the engine shows and keeps a step's text: a mirror's address may have a password.
SHOWN = ("JOBS", "TRAIN")
INTO = "/interlock/"


def in_few_steps(
    dockerfile: str, arguments: Mapping[str, str], labels: Mapping[str, str], *, is_shared: bool = False
) -> str:
    """Return the Dockerfile with arguments filled in and with one ENV and one LABEL for all that configures the image.

    The stages that variants share stay as they are, so that the engine finds them in its cache. A build `is_shared` if
    another variant starts from it: then it has a step of its own, which is in the cache too. The image's environment
    comes last: nothing that makes the image may need it.
    """
    filled = {name: value for name, value in arguments.items() if name in SHOWN or not value}
    stages = [[_filled(line, filled) for line in stage if not _declares(line, filled)] for stage in _stages(dockerfile)]
    words = " ".join(f'"{name}"="{_escaped(value)}"' for name, value in labels.items())
    last = [*stages[-1], f"LABEL {words}"]
    middle = stages[1:-1] if is_shared else [_in_one(stage) for stage in stages[1:-1]]
    return "\n".join(line for stage in (stages[0], *middle, _configured_once(last)) for line in stage) + "\n"


def remaining(arguments: Mapping[str, str], dockerfile: str) -> dict[str, str]:
    """Return the arguments that a Dockerfile still has after `in_few_steps`."""
    return {name: value for name, value in arguments.items() if f"ARG {name}=" in dockerfile}


def _stages(dockerfile: str) -> list[list[str]]:
    """Return the instructions of each stage; those before the first FROM, which no stage has, come first."""
    stages: list[list[str]] = [[]]
    for instruction in INSTRUCTION.findall(dockerfile):
        if instruction.startswith("FROM "):
            stages.append([])
        stages[-1].append(instruction)
    return stages


def _declares(instruction: str, names: Iterable[str]) -> bool:
    return any(instruction.startswith(f"ARG {name}=") for name in names)


def _filled(instruction: str, values: Mapping[str, str]) -> str:
    """Return the instruction with these arguments' values; each stands between double quotes in it."""
    for name, value in values.items():
        instruction = re.sub(rf"\$({name}\b|{{{name}}})", _escaped(value).replace("\\", r"\\"), instruction)
    return instruction


def _in_one(stage: Sequence[str]) -> list[str]:
    """Return the stage with its scripts copied in one step and run in one step."""
    copies = [line for line in stage if line.startswith("COPY ") and line.endswith(f" {INTO}")]
    if not copies:
        return list(stage)
    runs = [line for line in stage if line.startswith("RUN ") and stage.index(line) > stage.index(copies[0])]
    sources = " ".join(line.removeprefix("COPY ").removesuffix(INTO).strip() for line in copies)
    rest = [line for line in stage if line not in copies + runs]
    return [*rest, f"COPY {sources} {INTO}", "RUN " + " && ".join(line.removeprefix("RUN ") for line in runs)]


def _configured_once(stage: Sequence[str]) -> list[str]:
    """Return the stage with one ENV and one LABEL, at its end."""
    kinds = ("ENV ", "LABEL ")
    rest = [line for line in stage if not line.startswith(kinds)]
    words = {kind: [line.removeprefix(kind) for line in stage if line.startswith(kind)] for kind in kinds}
    return [*rest, *(kind + " ".join(values) for kind, values in words.items() if values)]


def _escaped(text: str) -> str:
    """Return the text escaped for double quotes, so that nothing in it is expanded."""
    return re.sub(r'(["\\$])', r"\\\1", text)

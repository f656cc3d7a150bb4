"""What the chosen stages of a Dockerfile use: what their lines run, and what goes between them and others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from interlock.swap.copied import Beside, copied_files
from interlock.swap.dockerfile import Dockerfile, Stage
from interlock.swap.instructions import Instruction
from interlock.swap.uses import Between, Use, Used, Uses
from interlock.swap.variables import LONGEST_VALUE

ASSIGNED = re.compile(r"(?:^|[;&|\s])([A-Za-z_]\w{0,63})=(\"[^\"]*\"|'[^']*'|[^\s;&|\"'$]+)")
VALUED = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
MOST_EXPANDED = 200_000


def stage_uses(dockerfile: Dockerfile, indexes: Sequence[int], beside: Beside) -> Uses:
    """Return what the stages of these numbers use, with what the files say that they copy."""
    chosen = [dockerfile.stages[index] for index in indexes]
    between = _between(dockerfile, chosen)
    foreign = {
        id(taken.instruction)
        for stage, taken in between.coming
        if taken.instruction.keyword == "COPY" and taken.stage and stage.keeps(taken)
    }
    bodies: dict[int, list[Instruction]] = {root.index: [] for root in chosen}
    uses = {root.index: [Use(root.line, root.image, "FROM")] for root in chosen}
    for (stage, one), values in zip(dockerfile.instructions, dockerfile.values, strict=True):
        if stage and stage.root.index in uses and one is not stage.instruction:
            bodies[stage.root.index].append(one)
            expanded = _shell_expanded(one.said, values)
            uses[stage.root.index].append(Use(one.line, one.said, one.keyword, id(one) in foreign, expanded))
    return Uses(
        tuple(
            Used(root, tuple(uses[at]), root.platforms, copied_files(bodies[at], uses[at], beside))
            for at, root in ((root.index, root) for root in chosen)
        ),
        between,
    )


def _between(dockerfile: Dockerfile, chosen: Sequence[Stage]) -> Between:
    """Return what goes between the chosen stages and those that stay."""
    taken = [
        (stage, taken, stage.root in chosen, taken.stage is not None and taken.stage.root in chosen)
        for stage in dockerfile.stages
        for taken in stage.taken
    ]
    return Between(
        unknown=tuple(stage for stage in dockerfile.stages if stage.missing is not None),
        coming=tuple((stage, one) for stage, one, here, there in taken if here and not there),
        leaving=tuple((stage, one) for stage, one, here, there in taken if there and not here),
        named=dockerfile.named_images,
        platforms_line=dockerfile.platforms_line,
    )


def _shell_expanded(text: str, values: Mapping[str, str]) -> str:
    """Return what a shell runs with these values and those that the text itself sets; what is too long stays."""
    if "$" not in text:
        return text
    known = {**values, **{name: value.strip("\"'") for name, value in ASSIGNED.findall(text)}}
    known = {name: value for name, value in known.items() if len(value) <= LONGEST_VALUE}
    longest = max((len(value) for value in known.values()), default=0)
    if len(text) + text.count("$") * longest > MOST_EXPANDED:
        return text
    return VALUED.sub(lambda match: known.get(match[1] or match[2], match[0]), text)

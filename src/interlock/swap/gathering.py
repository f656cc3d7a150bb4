"""Gathers what a file's chosen image lines are used for: what runs there, and what stages take from others."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from interlock.swap.caveats import Caveat, Weight
from interlock.swap.copied import Beside, copied_files
from interlock.swap.dockerfile import Dockerfile, Stage, Taken
from interlock.swap.image_names import NAMES_PYTHON, ImageLine, Maker
from interlock.swap.instructions import Instruction
from interlock.swap.manifests import EXPRESSION, ImageEntry, ImageManifest, ParsedFile
from interlock.swap.uses import Use, Used, Uses
from interlock.swap.variables import LONGEST_VALUE

ASSIGNED = re.compile(r"(?:^|[;&|\s])([A-Za-z_]\w{0,63})=(\"[^\"]*\"|'[^']*'|[^\s;&|\"'$]+)")
VALUED = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
MOST_EXPANDED = 200_000
# The platform that a service is for, or that a devcontainer is started for.
PLATFORM = re.compile(r"platform[\"']?\s*[:=]\s*[\"']?(linux/[\w/]+)")


def gather_uses(parsed: ParsedFile, chosen: Sequence[int], beside: Beside) -> Uses:
    """Return what these image lines are used for, with the contents of files that a Dockerfile copies."""
    if isinstance(parsed, ImageManifest):
        entries = tuple(_entry_uses(parsed, parsed.entries[index]) for index in chosen)
        stays = (*_left_to_the_workflow(parsed), *_not_asked_for(parsed.entries, chosen), *parsed.stays)
        return Uses(entries, stays)
    crossings = [
        (stage, taken, stage.root.index in chosen, taken.stage is not None and taken.stage.root.index in chosen)
        for stage in parsed.stages
        for taken in stage.taken
    ]
    coming = tuple((stage, taken) for stage, taken, here, there in crossings if here and not there)
    leaving = tuple((stage, taken) for stage, taken, here, there in crossings if there and not here)
    # What is said of files that come or leave names their stage.
    named = {stage.root.index for stage, _ in leaving} | {taken.stage.root.index for _, taken in coming if taken.stage}
    stays = (*_not_checked(parsed), *_not_asked_for(parsed.stages, {*chosen, *named}))
    return Uses(
        tuple(_stage_uses(parsed, chosen, coming, beside)),
        stays=stays,
        coming=coming,
        leaving=leaving,
        named=parsed.named_images,
        platforms_line=parsed.platforms_line,
    )


def _entry_uses(manifest: ImageManifest, entry: ImageEntry) -> Used:
    uses, asked = list[Use](), list[str]()
    for scope in entry.scopes:
        uses += scope.uses
        asked += [*PLATFORM.findall(scope.span.of(manifest.text)), *scope.platforms]
    return Used(entry, tuple(uses), tuple(asked))


def _left_to_the_workflow(manifest: ImageManifest) -> Iterator[Caveat]:
    """Yield the images that an expression or a variable chooses: `python:${{ matrix.python }}`, `python:$PY-slim`."""
    for entry in manifest.entries:
        if entry.missing is not None and NAMES_PYTHON.search(entry.image):
            chooser = (
                "an expression of the workflow" if entry.missing == EXPRESSION else f"the variable {entry.missing}"
            )
            text = f"{entry.image} stays: {chooser} chooses it"
            yield Caveat(entry.line, text, Weight.KNOW)


def _not_checked(dockerfile: Dockerfile) -> Iterator[Caveat]:
    for stage in dockerfile.stages:
        if stage.missing is not None:
            yield Caveat(stage.line, f"{stage.missing} has no default: stage {stage.label} was not checked")


def _not_asked_for(lines: Sequence[ImageLine], told: Collection[int]) -> Iterator[Caveat]:
    """Yield the images that have Python and something else, which are swapped only if they are named."""
    for line in lines:
        if line.index not in told and line.python is not None and line.python.maker is Maker.OTHER:
            yield Caveat(line.line, f"{line.image} stays: it is not python:X; {line.option} swaps it", Weight.KNOW)


def _stage_uses(
    dockerfile: Dockerfile, chosen: Sequence[int], coming: Sequence[tuple[Stage, Taken]], beside: Beside
) -> Iterator[Used]:
    """Yield what the stages, and those that start from them, ask for and run."""
    foreign = {
        id(taken.instruction)
        for stage, taken in coming
        if taken.instruction.keyword == "COPY" and taken.stage and (taken.stage, taken.name) in stage.interpreters_from
    }
    roots = [dockerfile.stages[index] for index in chosen]
    bodies: dict[int, list[Instruction]] = {index: [] for index in chosen}
    uses = {root.index: [Use(root.line, root.image, "FROM")] for root in roots}
    for (stage, instruction), values in zip(dockerfile.instructions, dockerfile.values, strict=True):
        if stage and stage.root.index in uses and instruction is not stage.instruction:
            expanded = _shell_expanded(instruction.said, values)
            is_foreign = id(instruction) in foreign
            use = Use(instruction.line, instruction.said, instruction.verb, is_foreign, expanded)
            uses[stage.root.index].append(use)
            bodies[stage.root.index].append(instruction)
    for root in roots:
        files = copied_files(bodies[root.index], uses[root.index], beside)
        yield Used(root, tuple(uses[root.index]), root.platforms, files)


def _shell_expanded(text: str, values: Mapping[str, str]) -> str:
    """Return a text as a shell expands it with these values and those it sets; variables with long values stay."""
    if "$" not in text:
        return text
    known = {**values, **{name: value.strip("\"'") for name, value in ASSIGNED.findall(text)}}
    known = {name: value for name, value in known.items() if len(value) <= LONGEST_VALUE}
    longest = max((len(value) for value in known.values()), default=0)
    if len(text) + text.count("$") * longest > MOST_EXPANDED:
        return text
    return VALUED.sub(lambda match: known.get(match[1] or match[2], match[0]), text)

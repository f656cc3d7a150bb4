"""The image line of a devcontainer.json, which is JSON with comments and trailing commas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from interlock.errors import SwapError
from interlock.swap.caveats import Caveat, Weight
from interlock.swap.instructions import BOM, Span, line_of
from interlock.swap.manifests import ImageManifest, Scope, make_entry
from interlock.swap.uses import FEATURE, Use

BUILT_INSTEAD = {
    "dockerFile": "it builds {}: swap that file",
    "build": "it builds a Dockerfile: swap that file",
    "dockerComposeFile": "it uses {}: swap that file",
}
# A feature that installs a Python; with such a version, or without one, it takes the system's Python or none.
PYTHON_FEATURE, SYSTEMS = re.compile(r"/python(?:[:@]|$)"), ("os-provided", "none")
COMMANDS = ("onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand", "postAttachCommand")
# A string or comment that nothing ends still matches, so that it is looked at once; the parser refuses it.
STRING = r'"(?:[^"\\\n]|\\.)*"?'
COMMENT = re.compile(rf"{STRING}|(//[^\n]*|/\*.*?\*/)|/\*.*", re.DOTALL)
TRAILING_COMMA = re.compile(rf"{STRING}|,(?=\s*[}}\]])", re.DOTALL)
NOT_LINE_END = re.compile(r"[^\n]")
BETWEEN = re.compile(r"[\s:,]*")
JSON = json.JSONDecoder(parse_int=float)  # an integer of thousands of digits would be refused


def read_devcontainer(text: str, file: str) -> ImageManifest:
    """Return the image line of a devcontainer.json."""
    values = _top_level_values(_as_json(text), file)
    image = values.get("image")
    if image is None:
        stays = tuple(
            Caveat(line_of(text, values[key].start), said.format(values[key].of(text).strip('"')), Weight.KNOW)
            for key, said in BUILT_INSTEAD.items()
            if key in values
        )
        return ImageManifest(text, "image", "//", (), stays)
    if text[image.start] != '"':
        place = f"{file}:{line_of(text, image.start)}"
        raise SwapError(file=place, key="image", found="is not a string", todo="Write the image's name there.")
    uses = (*_features(text, values.get("features"), file), *_commands(text, values))
    scope = Scope(Span(0, len(text)), uses)
    entry = make_entry(text, 0, None, Span(image.start + 1, image.end - 1), [scope])
    return ImageManifest(text, "image", "//", (entry,))


def _features(text: str, features: Span | None, file: str) -> Iterator[Use]:
    """Yield the features that install something; a Python feature may take the system's Python, or none."""
    if features is None or text[features.start] != "{":
        return
    blanked = _as_json(NOT_LINE_END.sub(" ", text[: features.start]) + features.of(text))
    for name, span in _top_level_values(blanked, file).items():
        options = JSON.decode(span.of(blanked))
        version = options.get("version", SYSTEMS[0]) if isinstance(options, dict) else options
        if version not in SYSTEMS or not PYTHON_FEATURE.search(name):
            yield Use(line_of(text, span.start), name, FEATURE)


def _commands(text: str, values: Mapping[str, Span]) -> Iterator[Use]:
    """Yield the commands that run in the container; `initializeCommand` runs outside."""
    for span in (values[key] for key in COMMANDS if key in values):
        command = JSON.decode(_as_json(span.of(text)))
        parts = command.values() if isinstance(command, dict) else [command]
        said = [" ".join(map(str, part)) if isinstance(part, list) else str(part) for part in parts]
        yield Use(line_of(text, span.start), "\n".join(said))


def _as_json(text: str) -> str:
    """Return JSON of the same length, with blanks for comments, trailing commas and a byte order mark."""
    without_comments = COMMENT.sub(lambda match: NOT_LINE_END.sub(" ", match[0]) if match[1] else match[0], text)
    blanked = TRAILING_COMMA.sub(lambda match: " " if match[0] == "," else match[0], without_comments)
    return " " + blanked[1:] if text.startswith(BOM) else blanked


def _top_level_values(text: str, file: str) -> dict[str, Span]:
    try:
        document = JSON.decode(text) if text.strip() else None
    except (json.JSONDecodeError, RecursionError) as error:
        place = f"{file}:{error.lineno if isinstance(error, json.JSONDecodeError) else 1}"
        raise SwapError(file=place, found="is not valid JSON with comments", todo="Correct it there.") from error
    if not isinstance(document, dict):
        raise SwapError(file=file, found="has no JSON object", todo="Name a devcontainer.json.")
    values: dict[str, Span] = {}
    at = _skip(text, text.index("{") + 1)
    while text[at] != "}":
        key, at = JSON.raw_decode(text, at)
        start = _skip(text, at)
        _, end = JSON.raw_decode(text, start)
        values[key] = Span(start, end)
        at = _skip(text, end)
    return values


def _skip(text: str, at: int) -> int:
    """Return where the next key or value begins, or the object ends."""
    between = BETWEEN.match(text, at)
    return between.end() if between else at

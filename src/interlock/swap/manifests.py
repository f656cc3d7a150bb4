"""Image lines of compose files, Kubernetes manifests and devcontainer.json: found, swapped and taken back.

A real parser of the format says where each image stands; only those characters change.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import tree_sitter_json
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from tree_sitter import Language, Parser
from tree_sitter import Node as JsonNode

from interlock.errors import SwapError
from interlock.swap.caveats import image_caveats
from interlock.swap.dockerfile import BOM, Span, line_of
from interlock.swap.edits import (
    WAS,
    Edit,
    SwapComment,
    SwapResult,
    apply_edits,
    changed_lines,
    comment_edit,
    damaged_comment_error,
    decode_original,
    encode_original,
    swap_comments,
)
from interlock.swap.image_names import (
    ImageLine,
    NewImage,
    UnsetVariable,
    Variable,
    agreeing_image_lines,
    expand,
    no_python_error,
    python_image,
    refuse_windows,
    require_image_line,
    sole_variable,
)
from interlock.swap.paths import VERSION_TOKEN, FoundVersion, renamed

# Keys with containers in Kubernetes' own kinds and in those of Argo, Knative and Tekton.
LISTS_OF_CONTAINERS = frozenset({"containers", "initContainers", "ephemeralContainers", "sidecars", "steps"})
CONTAINERS = frozenset({"container", "script"})
# Where a swap ends with a refusal rather than after minutes.
MOST_YAML, MOST_NESTED = 100_000, 200
BRACKET = re.compile(r"[\[\]{}]")
LINE = re.compile(r"[^\n]*\n|[^\n]+")
FLOW_QUOTES = frozenset({"'", '"'})
# An anchor or a tag, which the parser counts as part of the value after it.
PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
NamedImage = tuple[str | None, ScalarNode, Node]
JSON_PARSER = Parser(Language(tree_sitter_json.language()))
BUILT_INSTEAD = {
    "dockerFile": "It builds {}: swap that file.",
    "build": "It builds a Dockerfile: swap that file.",
    "dockerComposeFile": "It uses {}: swap that file.",
}


@dataclass(frozen=True)
class ImageEntry(ImageLine):
    """An image line of a manifest."""

    span: Span  # the image as written, without quotes
    scope: Span  # its service, its container or the whole file
    default: Variable | None  # the image's variable, if its default is the image


@dataclass(frozen=True)
class InlineDockerfile:
    """The Dockerfile in a compose file: a text of several lines with one indentation."""

    service: str
    line: int  # of its first line
    span: Span
    indent: str
    text: str  # without the indentation

    def indented(self, text: str) -> str:
        """Return a text as it stands in the file: empty lines stay empty."""
        return "".join(self.indent + line if line.strip("\r\n") else line for line in LINE.findall(text))


@dataclass(frozen=True)
class ImageManifest:
    """A file that is not a Dockerfile, and its image lines."""

    text: str
    noun: str  # the thing with an image: service, container
    sign: str  # the start of a comment
    entries: tuple[ImageEntry, ...]
    instead: str  # what to swap instead if there is no image line
    inline: tuple[InlineDockerfile, ...] = ()

    def need(self, file: str) -> Sequence[ImageEntry]:
        """Return the entries; raise SwapError if there is none."""
        if not self.entries:
            raise SwapError(file=file, found="names no image", todo=self.instead or "Name a file that does.")
        return self.entries


def make_entry(text: str, index: int, name: str | None, span: Span, scope: Span) -> ImageEntry:
    """Return the entry of an image at this span; variables have only their own defaults, as in compose files."""
    raw = span.of(text)
    missing = None
    image = raw
    try:
        image = expand(raw, {})
    except UnsetVariable as unset:
        missing = unset.name
    variable = sole_variable(raw)
    return ImageEntry(
        index=index,
        name=name,
        line=line_of(text, span.start),
        image=image,
        missing=missing,
        python=None if missing else python_image(image),
        span=span,
        scope=scope,
        default=variable if variable is not None and variable.has_default else None,
    )


def choose_entries(manifest: ImageManifest, name: str | None, file: str) -> list[ImageEntry]:
    """Return the entries to swap: all, which must be of one Python, or the one of this name or number."""
    entries = manifest.need(file)
    chosen = (
        agreeing_image_lines(entries, manifest.noun, file)
        if name is None
        else [require_image_line(entries, name, manifest.noun, file)]
    )
    for one in chosen or entries:
        if one.missing is not None:
            raise SwapError(
                file=f"{file}:{one.line}",
                found=f"{one.missing} has no default here, so the image of '{one.image}' is not known",
                todo=f"Write a default: ${{{one.missing}:-...}}.",
            )
    if not chosen and manifest.instead:
        there = ", ".join(dict.fromkeys(one.image for one in entries))
        raise SwapError(
            file=file, found=f"no {manifest.noun} starts from a Python image (there is {there})", todo=manifest.instead
        )
    if not chosen:
        raise no_python_error(entries, manifest.noun, file)
    refuse_windows(chosen, file)
    for one in chosen:
        if sum(other.line == one.line for other in entries) > 1:
            raise SwapError(
                file=f"{file}:{one.line}",
                found="several images on one line, and a comment can keep only one",
                todo="Write each on a line of its own.",
            )
    return chosen


def swapped_entries(manifest: ImageManifest, chosen: Iterable[int], to: NewImage) -> SwapResult:
    """Swap the images of the chosen entries; versions in paths are reported, not edited."""
    picked = [manifest.entries[index] for index in chosen]
    after = apply_edits(manifest.text, [edit for entry in picked for edit in _entry_edits(manifest, entry, to)])
    return SwapResult(
        text=after,
        changed=changed_lines(manifest.text, after),
        warnings=tuple(image_caveats(picked, to)),
        paths=tuple(path for entry in picked for path in _versions_in_scope(manifest.text, entry, to)),
    )


def _entry_edits(manifest: ImageManifest, entry: ImageEntry, to: NewImage) -> list[Edit]:
    """Return the edits of an entry: a comment above the line with its indentation, and the image."""
    raw = entry.span.of(manifest.text)
    variable = entry.default
    new = f"${{{variable.name}{variable.operator}{to.reference}}}" if variable else to.reference
    start = line_start(manifest.text, entry.span.start)
    line = manifest.text[start : entry.span.start]
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    return [
        comment_edit(manifest.text, start, f"{WAS} {encode_original(raw)}", indent + manifest.sign),
        Edit(entry.span, new),
    ]


def line_start(text: str, at: int) -> int:
    """Return the start of the line with this position, after any byte order mark."""
    start = text.rfind("\n", 0, at) + 1
    return start + 1 if text.startswith(BOM, start) else start


def _versions_in_scope(text: str, entry: ImageEntry, to: NewImage) -> list[FoundVersion]:
    """Return the versions in an entry's scope: its command, volumes and environment."""
    old = entry.python.python if entry.python else None
    found = []
    for match in VERSION_TOKEN.finditer(text, entry.scope.start, entry.scope.end):
        inside = entry.span.start <= match.start() < entry.span.end
        version = match["version"] or match["script_version"] or match["option"]
        if not inside and version is not None and old in {None, version}:
            line = line_of(text, match.start())
            reason = "edit it by hand: only a Dockerfile's are edited"
            found.append(FoundVersion(line, match[0], renamed(match, to), edited=False, reason=reason))
    return [path for path in found if path.new != path.old]


def revert_edits(manifest: ImageManifest, chosen: Iterable[int], file: str) -> list[Edit]:
    """Return the edits that take back the swap of the chosen entries."""
    by_line: dict[int, list[ImageEntry]] = {}
    for entry in manifest.entries:
        by_line.setdefault(entry.line, []).append(entry)
    wanted = set(chosen)
    edits: list[Edit] = []
    for line, comments in swap_comments(manifest.text).items():
        above = [one for one in comments if not any(_holds(block, one) for block in manifest.inline)]
        if not above:
            continue
        entries = by_line.get(line, [])
        if len(above) > 1 or len(entries) != 1 or above[0].kind != WAS:
            raise damaged_comment_error(file, above[-1], "is not above a line that names one image")
        if entries[0].index in wanted:
            edits += _restoring_edits(entries[0], above[0], file)
    return edits


def _holds(block: InlineDockerfile, comment: SwapComment) -> bool:
    return block.span.start <= comment.span.start < block.span.end


def _restoring_edits(entry: ImageEntry, comment: SwapComment, file: str) -> list[Edit]:
    raw = decode_original(comment.content)
    if raw is None:
        raise damaged_comment_error(file, comment, "cannot be decoded")
    return [Edit(comment.span, ""), Edit(entry.span, raw)]


def read_manifest(text: str, file: str) -> ImageManifest:
    """Return the image lines of a compose file or Kubernetes manifests; raise SwapError for any other YAML."""
    documents = [node for node in _documents(text, file) if isinstance(node, MappingNode)]
    services = [node for document in documents if isinstance(node := _get(document, "services"), MappingNode)]
    if services:
        found = [one for node in services for one in _service_images(node)]
        inline = tuple(block for node in services for block in _inline_dockerfiles(text, node))
        return ImageManifest(text, "service", "#", _entries(text, found, file), _built_instead(services), inline)
    if any(_get(document, "apiVersion") is not None and _get(document, "kind") is not None for document in documents):
        found = [one for document in documents for one in _container_images(document, set())]
        return ImageManifest(text, "container", "#", _entries(text, found, file), _other_images(documents))
    if any(map(_is_ci, documents)):
        found = [one for document in documents for one in _job_images(document)]
        return ImageManifest(text, "job", "#", _entries(text, found, file), "")
    raise SwapError(
        file=file,
        found="is no compose file (services), Kubernetes manifest (apiVersion, kind), or pipeline of GitHub or GitLab",
        todo="Name a Dockerfile, a compose file, a manifest, a CI file or a devcontainer.json.",
    )


def values_of(text: str, file: str) -> list[str]:
    """Return every scalar value of the file, in order."""
    return [value for document in _documents(text, file) for value in _scalars(document, set())]


@lru_cache(maxsize=4)  # a swap reads the same text several times, and the parser takes a second for 100 KB
def _documents(text: str, file: str) -> list[Node]:
    if len(text) > MOST_YAML:
        raise _yaml_error(file, f"it is longer than {MOST_YAML // 1000} KB")
    depths = accumulate(1 if found[0] in "[{" else -1 for found in BRACKET.finditer(text))
    if max(depths, default=0) > MOST_NESTED:
        raise _yaml_error(file, "it is nested too deeply")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)  # it would be printed, with lines of the file
            return list(YAML(typ="rt", pure=True).compose_all(text))
    except RecursionError:
        raise _yaml_error(file, "it is nested too deeply") from None
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise _yaml_error(f"{file}:{line}", error.problem or "a mistake") from None
    except (YAMLError, ValueError, LookupError, TypeError, AttributeError, AssertionError) as error:  # `%YAML 9.9`
        raise _yaml_error(file, f"{type(error).__name__} {str(error)[:80]}".splitlines()[0]) from None


def _yaml_error(where: str, problem: str) -> SwapError:
    return SwapError(
        file=where, found=f"is not valid YAML: {problem}", todo="Correct it (a template must be rendered)."
    )


def _scalars(node: Node | None, seen: set[int]) -> Iterator[str]:
    """Yield the values below a node; what an alias repeats once, whatever it is repeated in."""
    if isinstance(node, ScalarNode):
        yield node.value
    elif isinstance(node, MappingNode | SequenceNode) and id(node) not in seen:
        seen.add(id(node))
        for child in node.value:
            for one in child if isinstance(child, tuple) else (child,):
                yield from _scalars(one, seen)


def _get(node: Node | None, key: str, seen: set[int] | None = None) -> Node | None:
    """Return the value of a mapping's key, its own or a merged one (<<)."""
    seen = set() if seen is None else seen
    if not isinstance(node, MappingNode) or id(node) in seen:
        return None
    seen.add(id(node))
    merged: list[Node] = []
    for name, value in node.value:
        if name.value == key:
            return value  # type: ignore[no-any-return]
        if name.value == "<<":
            merged += value.value if isinstance(value, SequenceNode) else [value]
    return next((found for one in merged if (found := _get(one, key, seen)) is not None), None)


def _service_images(services: Node) -> Iterator[NamedImage]:
    """Yield the images of services without `build`: with it, `image` names the result of the build."""
    for key, service in services.value if isinstance(services, MappingNode) else []:
        image = _get(service, "image")
        if isinstance(image, ScalarNode) and _get(service, "build") is None:
            yield key.value, image, service


def _inline_dockerfiles(text: str, services: Node) -> Iterator[InlineDockerfile]:
    """Yield the Dockerfiles in services; one that is not a literal text with one indentation is left out."""
    for key, service in services.value if isinstance(services, MappingNode) else []:
        node = _get(_get(service, "build"), "dockerfile_inline")
        start = text.find("\n", node.start_mark.index) + 1 if isinstance(node, ScalarNode) else 0
        if not isinstance(node, ScalarNode) or node.style != "|" or not start:  # YAML ends lines with more than \n
            continue
        lines = LINE.findall(text[start : node.end_mark.index])
        indent = next((line[: len(line) - len(line.lstrip(" "))] for line in lines if line.strip()), "")
        end = next((at for at, line in enumerate(lines) if line.strip() and not line.startswith(indent)), len(lines))
        inside = lines[:end]
        if indent and "".join(inside).strip():
            span = Span(start, start + len("".join(inside)))
            plain = "".join(line.removeprefix(indent) if line.strip("\r\n") else line for line in inside)
            yield InlineDockerfile(str(key.value), line_of(text, start), span, indent, plain)


def _built_instead(services: Iterable[Node]) -> str:
    """Return what to swap in place of services that are built."""
    built = [
        f"'{key.value}' is built: swap {_build_file(service)}"
        for node in services
        for key, service in (node.value if isinstance(node, MappingNode) else [])
        if _get(service, "build") is not None
    ]
    return f"{'; '.join(built)}." if built else ""


def _build_file(service: Node) -> str:
    build = _get(service, "build")
    context, dockerfile = _get(build, "context"), _get(build, "dockerfile")
    folder = build if isinstance(build, ScalarNode) else context
    place = f"{str(folder.value).rstrip('/') if folder is not None else '.'}/"
    return f"{place}{dockerfile.value if dockerfile is not None else 'Dockerfile'}"


def _other_images(documents: Iterable[Node]) -> str:
    """Return where manifests name a Python image in a field that is not a container's, as resources of others do."""
    named = [
        f"line {value.start_mark.line + 1} ({path} is {value.value})"
        for document in documents
        for path, value in _fields(document, "", set())
        if path.endswith("image") and python_image(str(value.value)) is not None
    ]
    return f"Another field than a container's names Python: edit {' and '.join(named)} by hand." if named else ""


def _fields(node: Node, path: str, seen: set[int]) -> Iterator[tuple[str, ScalarNode]]:
    """Yield the scalars below a mapping, with their keys joined by dots; what an alias repeats once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, ScalarNode):
        yield path.removeprefix("."), node
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            yield from _fields(value, f"{path}.{key.value}", seen)
    elif isinstance(node, SequenceNode):
        for value in node.value:
            yield from _fields(value, path, seen)


# Keys of a GitLab file's top level that are no jobs.
GITLAB_KEYS = frozenset({"default", "include", "stages", "variables", "workflow", "spec", "services", "cache", "pages"})


def _is_github(document: Node) -> bool:
    return _get(document, "jobs") is not None and _get(document, "on") is not None


def _is_ci(document: Node) -> bool:
    """Return whether a document is a workflow of GitHub's or a pipeline of GitLab's: a job there has a script."""
    jobs = [value for _, value in document.value] if isinstance(document, MappingNode) else []
    return _is_github(document) or any(_get(job, "script") is not None for job in jobs)


def _job_images(document: Node) -> Iterator[NamedImage]:
    """Yield the images that jobs of GitHub's or GitLab's run in, and those of GitLab's whole file."""
    if not _is_ci(document) or not isinstance(document, MappingNode):
        return
    if _is_github(document):
        held = _get(document, "jobs")
        jobs = [(key, job, "container") for key, job in (held.value if isinstance(held, MappingNode) else [])]
    else:
        jobs = [
            (key, job, "image")
            for key, job in document.value
            if key.value == "default" or str(key.value) not in GITLAB_KEYS
        ]
        jobs += [(key, document, "image") for key, _ in document.value if key.value == "image"]
    for key, job, field in jobs:
        image = _get(job, field)
        inner = _get(image, "image") or _get(image, "name")
        image = inner if inner is not None else image
        if isinstance(image, ScalarNode):
            yield key.value, image, job


def _container_images(node: Node | None, seen: set[int]) -> Iterator[NamedImage]:
    if id(node) in seen:  # an alias, perhaps to what it is in
        return
    seen.add(id(node))
    if isinstance(node, SequenceNode):
        for child in node.value:
            yield from _container_images(child, seen)
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            held = value.value if str(key.value) in LISTS_OF_CONTAINERS and isinstance(value, SequenceNode) else []
            for container in [*held, *([value] if str(key.value) in CONTAINERS else [])]:
                image, name = _get(container, "image"), _get(container, "name")
                if isinstance(image, ScalarNode):
                    yield (str(name.value) if name is not None else None), image, container
            yield from _container_images(value, seen)


def _entries(text: str, found: list[NamedImage], file: str) -> tuple[ImageEntry, ...]:
    """Return one entry for each position: services that share an image by an anchor have one."""
    by_start = {image.start_mark.index: (name, image, scope) for name, image, scope in reversed(found)}
    return tuple(
        make_entry(
            text, index, name, _image_span(text, image, file), Span(scope.start_mark.index, scope.end_mark.index)
        )
        for index, (_, (name, image, scope)) in enumerate(sorted(by_start.items()))
    )


def _image_span(text: str, image: ScalarNode, file: str) -> Span:
    """Return the image's span without an anchor or a tag before it and without quotes."""
    start, end = image.start_mark.index, image.end_mark.index
    properties = PROPERTIES.match(text, start, end)
    start = properties.end() if properties else start
    if (image.style is not None and image.style not in FLOW_QUOTES) or "\n" in text[start:end]:
        raise SwapError(
            file=f"{file}:{image.start_mark.line + 1}",
            found="the image is written over several lines",
            todo="Write it on one line.",
        )
    return Span(start + 1, end - 1) if image.style else Span(start, end)


def read_devcontainer(text: str, file: str) -> ImageManifest:
    """Return the image line of a devcontainer.json."""
    # Positions are in bytes. JSON has no byte order mark: three blanks of the same length replace it.
    data = text.encode("utf-8", "surrogateescape")
    root = JSON_PARSER.parse(data.replace(BOM.encode(), b"   ", 1) if text.startswith(BOM) else data).root_node
    _check_syntax(root, file)
    keys = _top_level_values(root, data, file)
    image = keys.get("image")
    if image is None:
        instead = next(
            (todo.format(_string(keys[key], data)) for key, todo in BUILT_INSTEAD.items() if key in keys), ""
        )
        return ImageManifest(text, "image", "//", (), instead)
    start, end = (len(data[:at].decode("utf-8", "surrogateescape")) for at in (image.start_byte, image.end_byte))
    return ImageManifest(
        text, "image", "//", (make_entry(text, 0, None, Span(start + 1, end - 1), Span(0, len(text))),), ""
    )


def _check_syntax(node: JsonNode, file: str) -> None:
    """Raise SwapError for invalid syntax. A comma after the last item is accepted, as editors do."""
    trailing = node.is_error and node.text == b","
    behind_comma = node.prev_sibling is not None and node.prev_sibling.type in {",", "comment"}
    if (node.is_error and not trailing) or (node.is_missing and not behind_comma):
        line = node.start_point[0] + 1
        raise SwapError(file=f"{file}:{line}", found="is not valid JSON with comments", todo="Correct it there.")
    for child in node.children:
        _check_syntax(child, file)


def _top_level_values(root: JsonNode, data: bytes, file: str) -> dict[str, JsonNode]:
    objects = [child for child in root.children if child.type == "object"]
    if not objects:
        raise SwapError(file=file, found="has no JSON object", todo="Name a devcontainer.json.")
    keys = {}
    for pair in objects[0].children:
        key, value = pair.child_by_field_name("key"), pair.child_by_field_name("value")
        if key is not None and value is not None:
            keys[_string(key, data)] = value
    image = keys.get("image")
    if image is not None and image.type != "string":
        line = image.start_point[0] + 1
        raise SwapError(
            file=f"{file}:{line}", key="image", found="is not a string", todo="Write the image's name there."
        )
    return keys


def _string(node: JsonNode, data: bytes) -> str:
    return data[node.start_byte : node.end_byte].decode("utf-8", "replace").strip('"')

"""Image lines of compose files and Kubernetes manifests, found by a YAML parser that tells places. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from interlock.errors import SwapError
from interlock.swap.dockerfile import Span
from interlock.swap.entries import Entry, Listing, make_entry

# What holds containers in Kubernetes' own kinds and in those of Argo, Knative and Tekton.
LISTS_OF_CONTAINERS = frozenset({"containers", "initContainers", "ephemeralContainers", "sidecars", "steps"})
CONTAINERS = frozenset({"container", "script"})
FLOW_QUOTES = frozenset({"'", '"'})
# An anchor or a tag, which a parser counts as a part of the value that it stands before.
PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")

Found = tuple[str | None, ScalarNode, Node]


def read_manifest(text: str, file: str) -> Listing:
    """The image lines of a compose file or of Kubernetes manifests; SwapError for any other YAML."""
    documents = [node for node in _documents(text, file) if isinstance(node, MappingNode)]
    services = [node for document in documents if (node := _get(document, "services")) is not None]
    if services:
        found = [one for node in services for one in _of_services(node)]
        return Listing(text, "service", "#", _entries(text, found, file), _built(services))
    if any(_get(document, "apiVersion") is not None and _get(document, "kind") is not None for document in documents):
        found = [one for document in documents for one in _of_containers(document)]
        return Listing(text, "container", "#", _entries(text, found, file), "")
    raise SwapError(
        file=file,
        found="is neither a compose file (services) nor a Kubernetes manifest (apiVersion, kind)",
        todo="Name a Dockerfile, a compose file, a Kubernetes manifest or a devcontainer.json.",
    )


def values_of(text: str, file: str) -> list[str]:
    """Every scalar of the file, in order: what a parser makes of it, without comments and places."""
    return [value for document in _documents(text, file) for value in _scalars(document)]


def _documents(text: str, file: str) -> list[Node]:
    try:
        return list(YAML(typ="rt", pure=True).compose_all(text))
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise _no_yaml(f"{file}:{line}", error.problem or "a mistake") from None
    except (YAMLError, ValueError) as error:
        raise _no_yaml(file, str(error).splitlines()[0]) from None


def _no_yaml(where: str, problem: str) -> SwapError:
    return SwapError(
        file=where, found=f"is not valid YAML: {problem}", todo="Correct it (a template must be rendered)."
    )


def _scalars(node: Node | None) -> Iterator[str]:
    if isinstance(node, ScalarNode):
        yield node.value
    elif isinstance(node, MappingNode | SequenceNode):
        for child in node.value:
            for one in child if isinstance(child, tuple) else (child,):
                yield from _scalars(one)


def _get(node: Node | None, key: str) -> Node | None:
    """The value of a mapping's key, its own or one that it merges (<<)."""
    if not isinstance(node, MappingNode):
        return None
    merged: list[Node] = []
    for name, value in node.value:
        if name.value == key:
            return value  # type: ignore[no-any-return]
        if name.value == "<<":
            merged += value.value if isinstance(value, SequenceNode) else [value]
    return next((found for one in merged if (found := _get(one, key)) is not None), None)


def _of_services(services: Node) -> Iterator[Found]:
    """A service with `build` names by `image` what the build makes, not what it starts from."""
    for key, service in services.value if isinstance(services, MappingNode) else []:
        image = _get(service, "image")
        if isinstance(image, ScalarNode) and _get(service, "build") is None:
            yield key.value, image, service


def _built(services: list[Node]) -> str:
    """What to swap in a compose file whose services are all built."""
    built = [
        _build_file(service)
        for node in services
        for _, service in (node.value if isinstance(node, MappingNode) else [])
        if _get(service, "build") is not None
    ]
    files = ", ".join(dict.fromkeys(built))
    return f"Its services are built: swap what builds them ({files})." if files else ""


def _build_file(service: Node) -> str:
    build = _get(service, "build")
    if isinstance(build, ScalarNode):
        return f"{build.value.rstrip('/')}/Dockerfile"
    if _get(build, "dockerfile_inline") is not None:
        return "its dockerfile_inline, by hand"
    context, dockerfile = _get(build, "context"), _get(build, "dockerfile")
    folder = str(context.value).rstrip("/") if context is not None else "."
    return f"{folder}/{dockerfile.value if dockerfile is not None else 'Dockerfile'}"


def _of_containers(node: Node | None) -> Iterator[Found]:
    if isinstance(node, SequenceNode):
        for child in node.value:
            yield from _of_containers(child)
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            held = value.value if key.value in LISTS_OF_CONTAINERS and isinstance(value, SequenceNode) else []
            for container in [*held, *([value] if key.value in CONTAINERS else [])]:
                image, name = _get(container, "image"), _get(container, "name")
                if isinstance(image, ScalarNode):
                    yield (str(name.value) if name is not None else None), image, container
            yield from _of_containers(value)


def _entries(text: str, found: list[Found], file: str) -> tuple[Entry, ...]:
    """One for each place: services that share an image by an anchor name one place."""
    by_start = {image.start_mark.index: (name, image, scope) for name, image, scope in reversed(found)}
    return tuple(
        make_entry(text, index, name, _inside(text, image, file), Span(scope.start_mark.index, scope.end_mark.index))
        for index, (_, (name, image, scope)) in enumerate(sorted(by_start.items()))
    )


def _inside(text: str, image: ScalarNode, file: str) -> Span:
    """Where the image stands, without an anchor or a tag before it and without quotes."""
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

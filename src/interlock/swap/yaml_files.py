"""The image lines of compose files, Kubernetes manifests and pipelines of GitHub, GitLab and others."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.scanner import Scanner

from interlock.errors import LeftError, SwapError
from interlock.swap.caveats import Caveat, Weight
from interlock.swap.image_names import NAMES_PYTHON, Maker, python_image
from interlock.swap.instructions import Span
from interlock.swap.manifests import ImageEntry, ImageManifest, Scope, make_entry
from interlock.swap.uses import STEP, Use

# Keys with containers in Kubernetes' own kinds and in those of Argo, Knative and Tekton.
LISTS_OF_CONTAINERS = frozenset({"containers", "initContainers", "ephemeralContainers", "sidecars", "steps"})
CONTAINERS = frozenset({"container", "script"})
# Limits beyond which a swap refuses a file, because reading it would take minutes.
MOST_YAML, MOST_NESTED = 100_000, 200
# How many mappings a key is looked for in, where each merges others.
MOST_MERGED = 20
FLOW_QUOTES = frozenset({"'", '"'})
# An anchor or a tag, which the parser counts as part of the value after it.
PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
# Keys of what is run, grouped if they are parts of one command, and what joins the texts of a list.
RUN_KEYS = (
    (("entrypoint", "command", "args"), " "),
    (("test",), " "),
    *(((key,), "\n") for key in ("run", "script", "commands", "source", "before_script", "after_script")),
)
# The key by which a pod names its nodes' architecture, and a job's key for its runners, with the names for ARM.
ARCHITECTURE = "kubernetes.io/arch"
RUNNERS = ("runs-on", "tags")
RUNNER_OF_ARM = re.compile(r"(?:^|-)(?:arm64|arm|aarch64)(?:-|$)", re.IGNORECASE)
NamedImage = tuple[str | None, ScalarNode, Node]


def read_manifest(text: str, file: str) -> ImageManifest:
    """Return the image lines of a compose file or Kubernetes manifests; raise SwapError for any other YAML."""
    documents = [node for node in _documents(text, file) if isinstance(node, MappingNode)]
    services = [node for document in documents if isinstance(node := _get(document, "services"), MappingNode)]
    own: list[Node] = []
    if any(map(_steps, documents)):
        noun, images = "job", [image for document in documents for image in _steps(document)]
        services = []
    elif services:
        noun, images = "service", [*_service_images(services)]
        own = [service for node in services for _, service in _pairs(node) if _get(service, "build") is not None]
    elif any(_get(document, "apiVersion") is not None and _get(document, "kind") is not None for document in documents):
        noun, images = "container", [*_container_images(documents)]
        own = [container for _, image, container in images if python_image(str(image.value)) is None]
    elif any(map(_is_ci, documents)):
        noun, images = "job", [image for document in documents for image in _job_images(document)]
    else:
        raise _no_manifest_error(documents, file)
    stays = tuple(_built(services)) if services else _other_images(documents, images)
    built = tuple(sorted(map(_span, _in_image(own)), key=lambda span: span.start))
    return ImageManifest(text, noun, "#", _entries(text, documents, images, file), stays, built)


def _no_manifest_error(documents: Sequence[Node], file: str) -> SwapError:
    """Return the error for YAML of an unknown kind, which names a template's values that name Python."""
    for named in _other_images(documents, [], VALUES_FIELD):
        return LeftError(
            file=f"{file}:{named.line}",
            found="is no compose file, manifest or pipeline, but perhaps values for a template",
            todo=f"There {named.text}.",
        )
    return SwapError(
        file=file,
        found="is not a compose file (services), Kubernetes manifest (apiVersion, kind), GitHub or GitLab pipeline",
        todo="Name a Dockerfile, a compose file, a manifest, a CI file or a devcontainer.json.",
    )


def require_values_unchanged(before: ImageManifest, after: str, chosen: Sequence[int], file: str) -> None:
    """Raise SwapError if edits change another value, as a comment does within a string of several lines."""
    entries = read_manifest(after, file).entries
    old, new = _values(before.text, file), _values(after, file)
    swapped = {
        (before.entries[index].span.of(before.text), entries[index].span.of(after))
        for index in chosen
        if index < len(entries)
    }
    same = all(pair[0] == pair[1] or pair in swapped for pair in zip(old, new, strict=False))
    if len(old) != len(new) or len(entries) != len(before.entries) or not same:
        raise SwapError(
            file=f"{file}:{before.entries[chosen[0]].line}",
            found="the line is within a text of several lines, so no comment fits above it",
            todo="Write the image on a line of its own.",
        )


def _values(text: str, file: str) -> list[str]:
    """Return every scalar value of the file, in order; values that aliases repeat come once."""
    return [node.value for node in _below(_documents(text, file)) if isinstance(node, ScalarNode)]


class _Scanner(Scanner):
    """Ends at brackets within too many others, which the parser would read for minutes."""

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:  # noqa: N803  the parser's name
        if self.flow_level >= MOST_NESTED:
            raise RecursionError
        super().fetch_flow_collection_start(TokenClass, to_push)


# What the parser raises besides errors with a line: for `%YAML 9.9`, or, where it keeps comments, for some that meet.
FAILURES = (YAMLError, ValueError, LookupError, TypeError, AttributeError, AssertionError, NotImplementedError)


@lru_cache(maxsize=4)  # a swap reads the same text several times, and the parser takes a second for 100 KB
def _documents(text: str, file: str) -> list[Node]:
    if len(text) > MOST_YAML:
        raise _yaml_error(file, f"it is longer than {MOST_YAML // 1000} KB")
    reader = YAML(typ="safe", pure=True)  # without comments, which take a third of the time
    reader.Scanner = _Scanner
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)  # else it is printed, with lines of the file
            return list(reader.compose_all(text))
    except RecursionError:
        raise _yaml_error(file, "it is nested too deeply") from None
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise _yaml_error(f"{file}:{line}", error.problem or "a mistake") from None
    except FAILURES as error:
        raise _yaml_error(file, f"{type(error).__name__} {str(error)[:80]}".splitlines()[0]) from None


def _yaml_error(where: str, problem: str) -> SwapError:
    return SwapError(
        file=where, found=f"is not valid YAML: {problem}", todo="Correct it (a template must be rendered)."
    )


def _below(nodes: Sequence[Node], stops: Collection[int] = ()) -> Iterator[Node]:
    """Yield nodes and all below them, each once even if aliases repeat it, down to the nodes of these ids."""
    left, seen = [*reversed(nodes)], set[int]()
    while left:
        node = left.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            parts = node.value if isinstance(node, SequenceNode) else []
            parts = [part for pair in node.value for part in pair] if isinstance(node, MappingNode) else parts
            left += [part for part in reversed(parts) if id(part) not in stops]


def _mappings(nodes: Sequence[Node], stops: Collection[int] = ()) -> list[MappingNode]:
    return [node for node in _below(nodes, stops) if isinstance(node, MappingNode)]


def _pairs(node: Node | None) -> list[tuple[ScalarNode, Node]]:
    """Return the keys and values of a mapping, except for keys that are lists or mappings; nothing for other nodes."""
    return [pair for pair in node.value if isinstance(pair[0], ScalarNode)] if isinstance(node, MappingNode) else []


@lru_cache(maxsize=10_000)  # many mappings may merge one of thousands of keys
def _own(node: Node | None) -> tuple[dict[str, Node], list[Node]]:
    """Return a mapping's own values by their keys, and what it merges (<<)."""
    merged: list[Node] = []
    for name, value in (pairs := _pairs(node)):
        if name.value == "<<":
            merged += value.value if isinstance(value, SequenceNode) else [value]
    return {str(name.value): value for name, value in reversed(pairs)}, merged


def _get(node: Node | None, key: str) -> Node | None:
    """Return the value of a mapping's key, its own or a merged one (<<)."""
    return next((values[key] for mapping in _with_merged(node) if key in (values := _own(mapping)[0])), None)


@lru_cache(maxsize=10_000)  # a mapping is asked for a dozen keys
def _with_merged(node: Node | None) -> tuple[Node, ...]:
    """Return a mapping and those that it merges, directly or through others, in the order in which their keys count."""
    left, found = [node] if node is not None else [], dict[int, Node]()
    while left and len(found) < MOST_MERGED:
        mapping = left.pop()
        if id(mapping) not in found:
            found[id(mapping)] = mapping
            left += reversed(_own(mapping)[1])
    return tuple(found.values())


def _service_images(services: Iterable[Node]) -> Iterator[NamedImage]:
    """Yield the images of services without `build`; if there is a `build`, `image` names its result."""
    for key, service in (pair for node in services for pair in _pairs(node)):
        image = _get(service, "image")
        if isinstance(image, ScalarNode) and _get(service, "build") is None:
            yield key.value, image, service


def _built(services: Iterable[Node]) -> Iterator[Caveat]:
    """Yield what to swap, or to edit by hand, for each service that is built."""
    for key, service in (pair for node in services for pair in _pairs(node)):
        build = _get(service, "build")
        inline = _texts(_get(build, "dockerfile_inline"))
        if build is not None and (not inline or NAMES_PYTHON.search(inline[0])):
            todo = "edit the Dockerfile here by hand" if inline else f"swap {_build_file(build)}"
            yield Caveat(key.start_mark.line + 1, f"'{key.value}' is built: {todo}", Weight.KNOW)
            yield from _chosen_by_build(build)


# Keys of a service, and of a container, with paths and commands of its image.
IN_IMAGE = (
    *("entrypoint", "command", "healthcheck", "environment", "volumes", "working_dir"),
    *("args", "env", "volumeMounts", "workingDir", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"),
)


def _in_image(users: Iterable[Node]) -> Iterator[Node]:
    """Yield what services and containers run and have in their images."""
    return (value for user in users for key in IN_IMAGE if (value := _get(user, key)) is not None)


def _chosen_by_build(build: Node) -> Iterator[Caveat]:
    """Yield a build's arguments and contexts that name a Python image, which override its Dockerfile."""
    for field, value in _fields(build, "", set()):
        image = str(value.value).rpartition("=")[2].removeprefix("docker-image://")
        named = re.match("args|additional_contexts", field) and re.search("[:@]", image) and " " not in image
        python = python_image(image) if named else None
        if python is not None and python.maker is not Maker.OTHER:
            said = f"build.{field} is {image}, which counts more than a swapped Dockerfile: edit it by hand"
            yield Caveat(value.start_mark.line + 1, said)


def _build_file(build: Node) -> str:
    context, dockerfile = _get(build, "context"), _get(build, "dockerfile")
    folder = build if isinstance(build, ScalarNode) else context
    place = f"{str(folder.value).rstrip('/') if folder is not None else '.'}/"
    return f"{place}{dockerfile.value if dockerfile is not None else 'Dockerfile'}"


# Fields with images that are not swapped: of third-party resources, of a job's services, of a GitHub step.
OTHER_FIELD = re.compile(
    r"(?:.*\.)?(?:.*image(?:\.name)?|services(?:\.name)?|uses|images\.(?:newName|name)|params\.default|docker\.image)"
)
VALUES_FIELD = re.compile(r"(?:.*\.)?(?:.*image(?:\.name|\.repository)?)", re.IGNORECASE)  # of a Helm chart
STEPS_IMAGE = "docker://"


def _other_images(
    documents: Iterable[Node], swapped: Iterable[NamedImage], field: re.Pattern[str] = OTHER_FIELD
) -> tuple[Caveat, ...]:
    """Return where documents name Python in fields other than the swapped ones."""
    taken, stays = {id(image) for _, image, _ in swapped}, list[Caveat]()
    for path, value in (scalar for document in documents for scalar in _fields(document, "", {*taken})):
        image = str(value.value)
        if path.endswith(".uses") != image.startswith(STEPS_IMAGE) or not field.fullmatch(path) or " " in image:
            continue
        if path.endswith(".default") and ":" not in image:  # a command, perhaps
            continue
        if python_image(image.removeprefix(STEPS_IMAGE)) is not None:
            said = f"{path} is {image}: edit it by hand"
            stays.append(Caveat(value.start_mark.line + 1, said, Weight.KNOW))
    return tuple(stays)


def _fields(node: Node, path: str, seen: set[int]) -> Iterator[tuple[str, ScalarNode]]:
    """Yield the scalars below a mapping, with their keys joined by dots; those that aliases repeat come once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, ScalarNode):
        yield path.removeprefix("."), node
    elif isinstance(node, MappingNode):
        for key, value in _pairs(node):
            yield from _fields(value, f"{path}.{key.value}", seen)
    elif isinstance(node, SequenceNode):
        for value in node.value:
            yield from _fields(value, path, seen)


# Top-level keys of a GitLab file that are not jobs.
GITLAB_KEYS = frozenset({"default", "include", "stages", "variables", "workflow", "spec", "services", "cache"})


def _is_github(document: Node) -> bool:
    return _get(document, "jobs") is not None and _get(document, "on") is not None


def _is_ci(document: Node) -> bool:
    """Return whether a document is a GitHub workflow or a GitLab pipeline; in the latter a job has a script."""
    of_gitlab = any(_get(job, "script") is not None for _, job in _pairs(document))
    return of_gitlab or _is_github(document) or any(True for _ in _circle_images(document))


def _items(node: Node | None) -> list[tuple[str | None, Node]]:
    """Return a mapping's values with their keys, or a list's items with their `name`."""
    items = node.value if isinstance(node, SequenceNode) else []
    named = [(next(iter(_texts(_get(item, "name"))), None), item) for item in items]
    return [*((str(key.value), value) for key, value in _pairs(node)), *named]


def _circle_images(document: Node) -> Iterator[NamedImage]:
    """Yield the first image of each of CircleCI's jobs and executors: the one that its steps run in."""
    for key in ("jobs", "executors"):
        for name, job in _items(_get(document, key)):
            containers = _get(job, "docker")
            first = containers.value[0] if isinstance(containers, SequenceNode) and containers.value else None
            if isinstance(image := _get(first, "image"), ScalarNode):
                yield name, image, job


def _steps(document: Node) -> list[NamedImage]:
    """Return the images of a pipeline that is a list of steps: Woodpecker's `image`, or Google's `name`."""
    steps = _items(_get(document, "steps")) if _get(document, "apiVersion") is None else []
    images = [(name, image, step) for name, step in steps if isinstance(image := _get(step, "image"), ScalarNode)]
    if not images:
        named = ((_get(step, "name"), step) for _, step in steps if _get(step, "args") or _get(step, "entrypoint"))
        images = [(None, name, step) for name, step in named if isinstance(name, ScalarNode)]
    return images


def _job_images(document: Node) -> Iterator[NamedImage]:
    """Yield the images that GitHub or GitLab jobs run in, and those of a whole GitLab file."""
    if images := [*_circle_images(document)]:
        yield from images
        return
    default = None  # GitLab's, whose image all jobs have that name none
    if _is_github(document):
        jobs = [(key, job, "container") for key, job in _pairs(_get(document, "jobs"))]
    else:
        held, default = _pairs(document), _get(document, "default")
        jobs = [(key, job, "image") for key, job in held if key.value == "default" or str(key.value) not in GITLAB_KEYS]
        jobs += [(key, document, "image") for key, _ in held if key.value == "image"]
    for key, job, field in jobs:
        image = _get(job, field)
        inner = _get(image, "image") or _get(image, "name")
        image = inner if inner is not None else image
        if isinstance(image, ScalarNode):
            yield key.value, image, job
            if job is default:
                yield key.value, image, document


def _containers(node: MappingNode) -> Iterator[Node]:
    """Yield the containers that a mapping itself has: those of a pod or a template."""
    for key, value in _pairs(node):
        if str(key.value) in LISTS_OF_CONTAINERS and isinstance(value, SequenceNode):
            yield from value.value
        elif str(key.value) in CONTAINERS:
            yield value


def _container_images(documents: Sequence[Node]) -> Iterator[NamedImage]:
    for container in (container for node in _mappings(documents) for container in _containers(node)):
        image, name = _get(container, "image"), _get(container, "name")
        if isinstance(image, ScalarNode):
            yield (str(name.value) if name is not None else None), image, container


def _entries(text: str, documents: Sequence[Node], images: list[NamedImage], file: str) -> tuple[ImageEntry, ...]:
    """Return one entry for each position: services that share an image by an anchor have one."""
    by_start: dict[int, list[NamedImage]] = {}
    for named in images:
        by_start.setdefault(named[1].start_mark.index, []).append(named)
    platforms = _platforms(documents)
    all_scopes = {id(scope) for _, _, scope in images}
    entries = []
    for index, (_, same) in enumerate(sorted(by_start.items())):
        name, image, _ = same[0]
        held = {id(scope): scope for _, _, scope in same}
        scopes = [
            Scope(_span(node), tuple(_uses(node, all_scopes)), tuple(platforms.get(id(node), ())))
            for node in held.values()
        ]
        merged = {id(part): part for scope in held.values() for part in _with_merged(scope)}
        scopes += [Scope(_span(part)) for key, part in merged.items() if key not in held]
        entries.append(make_entry(text, index, name, _image_span(text, image, file), scopes))
    return tuple(entries)


def _span(node: Node) -> Span:
    return Span(node.start_mark.index, node.end_mark.index)


def _platforms(documents: Sequence[Node]) -> dict[int, list[str]]:
    """Return the platforms of containers and jobs that are meant for nodes or runners of certain architectures."""
    platforms: dict[int, list[str]] = {}
    for node in _mappings(documents):
        if any(RUNNER_OF_ARM.search(runner) for key in RUNNERS for runner in _texts(_get(node, key))):
            platforms[id(node)] = ["linux/arm64"]
        if asked := [f"linux/{architecture}" for architecture in _architectures(node)]:
            platforms |= {id(container): asked for container in _containers(node)}
    return platforms


def _architectures(pod: Node) -> Iterator[str]:
    """Yield the architectures of nodes that a pod asks for, or accepts."""
    chosen = _get(_get(pod, "nodeSelector"), ARCHITECTURE)
    if isinstance(chosen, ScalarNode):
        yield str(chosen.value)
    required = _get(_get(_get(pod, "affinity"), "nodeAffinity"), "requiredDuringSchedulingIgnoredDuringExecution")
    terms = _get(required, "nodeSelectorTerms")
    for term in terms.value if isinstance(terms, SequenceNode) else []:
        expressions = _get(term, "matchExpressions")
        for expression in expressions.value if isinstance(expressions, SequenceNode) else []:
            if [*_texts(_get(expression, "key")), *_texts(_get(expression, "operator"))] == [ARCHITECTURE, "In"]:
                yield from _texts(_get(expression, "values"))


def _uses(scope: Node, scopes: Collection[int]) -> Iterator[Use]:
    """Yield what is run in a service, container or job, but not in others: its commands, probes and scripts."""
    for node in _mappings([scope], scopes):
        values = {str(key.value): value for key, value in _pairs(node)}
        for keys, between in RUN_KEYS:
            parts = [(values[key], said) for key in keys if (said := between.join(_texts(values.get(key))))]
            if parts:
                yield Use(parts[0][0].start_mark.line + 1, between.join(said for _, said in parts))
        if isinstance(action := values.get("uses"), ScalarNode):
            pairs = [f"{key.value}={' '.join(_texts(value))}" for key, value in _pairs(values.get("with"))]
            yield Use(action.start_mark.line + 1, " ".join([str(action.value), *pairs]), STEP)


def _texts(node: Node | None) -> list[str]:
    """Return a text as a list, or the texts of a list."""
    parts = node.value if isinstance(node, SequenceNode) else [node]
    return [str(part.value) for part in parts if isinstance(part, ScalarNode)]


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

# ruff: noqa: E501, RUF001  the texts are what others print
"""Every parser of what others wrote, with texts to begin from, and how a text is damaged."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from interlock.catalog import project
from interlock.catalog.types import MOUNT
from interlock.catalog.variants import Variant
from interlock.engine.build.image import parse_facts
from interlock.engine.packages import audit, pip_output, requirements
from interlock.engine.registry import api
from interlock.engine.registry.names import Registry, parse_registry
from interlock.engine.registry.session import UnsafeAnswerError, origin
from interlock.engine.registry.transfer import follow_transfer
from interlock.errors import InterlockError
from interlock.fleet.ansible import first_failure
from interlock.measure import processes
from interlock.measure.services import parse_fixed_rate
from interlock.printable import printable
from interlock.results import store
from interlock.results.experiments import Experiment
from interlock.swap import files
from interlock.trial.verdicts import gil_states
from tests.builders import ROOT
from tests.swap.samples import PLAIN

REFERENCE = ROOT / "results/reference/2026-11-22-a"
CELL = REFERENCE / "vm/cpython-2.7-pth-plain/startup.json"
# What has broken parsers before, here or elsewhere.
NASTY = (
    "\0", "\x1b[2J", "\x9b", "\r", "\n", "\r\n", "\ufeff", "\u2028", "\ud800", "\u202e", "é", "漢", "🐍", " ", "\t", " " * 5000,
    '"', "'", "`", "\\", "\\\n", "${", "}", "${A:-${B}}", "$", "#", "#!", "# escape=`\n", "<<EOF\n", "<<-'E'\n", "EOF\n", "ONBUILD ",
    "[", "]", "{", "}", "[" * 3000, "{\"a\":" * 2000, "&a [*a]", "&a", "*a", "<<: *a", "!!python/object:x", "? ", "- ", ": ", "|\n", ">\n",
    "---\n", "%YAML 9.9\n", "https://[::1", "://", "@", "file:", "-r r.txt\n", "-c ", "-e ", "--hash=", "[extra", "; python_version", "egg=",
    "NaN", "Infinity", "-1", "1e999", "9" * 5000, "0x", "true", "null", "sha256:", ":", "::", "/", "../", "//", "=", ",", "|",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 10**30, float("nan"), float("inf"), "", "x", "\x1b[2J", "é\n", [], {}, [None], {"a": []}, [[]], "x" * 5000,
)  # fmt: skip
LIMIT_S, LONGEST_SENTENCE = 2.0, 30_000


@dataclass(frozen=True)
class Target:
    """A parser, texts that it takes, and whether they are JSON, of which parts are exchanged too."""

    parse: Callable[[str, Path], object]
    seeds: Callable[[], Sequence[str]]
    is_json: bool = False
    refuses: tuple[type[Exception], ...] = ()  # besides our own errors, as its docstring says


def damaged(text: str, source: random.Random) -> str:
    """Return the text with a few parts removed, repeated, moved, or exchanged for something nasty."""
    for _ in range(source.randint(1, 5)):
        at = source.randrange(len(text) + 1)
        end = min(len(text), at + source.choice((0, 0, 1, 3, 20, 200)))
        put = source.choice(
            (source.choice(NASTY), source.choice(NASTY), "", text[at:end] * 2, chr(source.randrange(0x300)))
        )
        text = text[:at] + put + text[end:]
    return text


def exchanged(text: str, source: random.Random) -> str:
    """Return JSON in which some values are others, missing or there twice."""
    whole = [json.loads(text)]
    for _ in range(source.randint(1, 3)):
        place: Any = whole
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = source.choice(keys)
            if not (isinstance(place[key], dict | list) and place[key]) or source.random() < 0.2:
                break
            place = place[key]
        if source.random() < 0.3 and place is not whole:
            del place[key]
        else:
            place[key] = deepcopy(source.choice(VALUES))
        if not whole[0]:
            break
    return json.dumps(whole[0])


def made(target: Target, source: random.Random) -> str:
    """Return a text to try."""
    text = source.choice(target.seeds())
    if target.is_json and source.random() < 0.7:
        return exchanged(text, source)
    return damaged(text, source)


def attempt(target: Target, text: str, folder: Path) -> None:
    """Parse the text; only a sentence, or what the parser's docstring says, may come out of it."""
    try:
        target.parse(text, folder)
    except target.refuses:
        return
    except InterlockError as error:
        said, todo = str(error), error.todo
    else:
        return
    assert said == printable(said)
    assert len(said) < LONGEST_SENTENCE
    assert todo


def _swap(name: str) -> Callable[[str, Path], object]:
    def parse(text: str, folder: Path) -> object:
        path = folder / name
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        read = files.read_file(path)
        with contextlib.suppress(InterlockError):
            files.reverted_file(name, read)
        return files.swapped_file(name, read, PLAIN, None, paths=True)

    return parse


def _corpus(*ends: str) -> Callable[[], Sequence[str]]:
    @cache
    def texts() -> list[str]:
        paths = sorted(path for path in (ROOT / "tests/corpus").iterdir() if path.name.endswith(ends))
        return [path.read_bytes().decode("utf-8", "replace") for path in paths]

    return texts


def _requirements(text: str, _: Path) -> object:
    def read_text(path: Path) -> str:
        if path.name != "r.txt":
            raise FileNotFoundError(2, "no such file")
        return text

    found = requirements.read(["r.txt"], read_text, lambda path: path.name == "wheels")
    places = requirements.local_places(found, MOUNT)
    requirements.line_for(found, "numpy", "https://[::1/x.whl", places)
    return requirements.pip_lines(found.lines, places), [requirements.display_text(one) for one in found.lines]


def _variant(text: str, folder: Path) -> object:
    path = folder / "variants/cpython-3.13.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return project._parse(folder, path, Variant, {**project._read_toml(folder, path), "name": "cpython-3.13"})


@cache
def _variants() -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted((ROOT / "variants").glob("*.toml"))][:20]


def _experiment(text: str, folder: Path) -> object:
    path = folder / store.EXPERIMENT_FILE
    path.write_text(text, encoding="utf-8", errors="replace")
    return store.read_json(path, Experiment)


def _values(text: str, folder: Path) -> object:
    path = folder / "cell.json"
    path.write_text(text, encoding="utf-8", errors="replace")
    return store.read_values(path)


def _profiles(text: str, folder: Path) -> object:
    (folder / "x.profile.json").write_text(text, encoding="utf-8", errors="replace")
    return store.read_profiles(folder / "x.json")


DIGEST = f"sha256:{'0' * 64}"


def _registry(text: str, _: Path) -> object:
    asked = api.Api.__new__(api.Api)
    vars(asked)["_registry"] = Registry("registry.example", "team")
    refused = 0
    for kind in (api.ImageIndex, api.ImageManifest, api.ImageConfig, api.Granted, api.Errors):
        try:
            found = asked.read(kind, text.encode("utf-8", "replace"))
            if isinstance(found, api.ImageIndex):
                api.index_of([one.model_dump(exclude_unset=True) for one in found.manifests])
        except InterlockError:
            refused += 1
    for line in text.splitlines()[:5]:
        try:
            origin(line)
        except UnsafeAnswerError:
            refused += 1
        api._parameters(line)
        parse_registry_or_none(line)
    return refused


def parse_registry_or_none(text: str) -> object:
    try:
        return parse_registry(text, "--registry")
    except InterlockError:
        return None


def _transfer(text: str, _: Path) -> object:
    return follow_transfer(_events(text), "registry.example", lambda _: None)


def _events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


def _pip(text: str, _: Path) -> object:
    return pip_output.blame(text, text), pip_output.last_words(text), pip_output.pip_version(text)


@cache
def _reports() -> list[str]:
    item = {
        "download_info": {"url": "https://x/a-1.whl", "archive_info": {"hashes": {"sha256": "0"}}},
        "requested": True,
        "metadata": {
            "name": "a",
            "version": "1",
            "requires_dist": ["b>=1; python_version>'3'"],
            "provides_extra": ["x"],
        },
    }
    other = {**item, "metadata": {"name": "b", "version": "2"}, "requested_extras": ["y"]}
    return [json.dumps({"version": "1", "install": [item, other], "environment": {"python_version": "3.13"}})]


def _said(text: str, _: Path) -> object:
    processes.parse_costs(text)
    processes.printed_lines(text)
    audit.parse(text)
    gil_states(text.splitlines(), [text])
    first_failure(text)
    return parse_fixed_rate(text)


COST = '{"interlock_process": {"wall_s": 1.0, "user_s": 0.1, "sys_s": 0.1, "max_rss_bytes": 1, "exit_code": 0}}'
SAID = [
    f'{COST}\n{{"loops": 1, "values": [0.1]}}\n',
    '{"name": "a", "version": "1", "files": ["a/__init__.py"]}\n{"bare": "off"}\n{"module": "a", "error": "", "by": ""}\n',
    "1 0 0 json\n7 0 1 lxml.etree\n",
    '{"interlock_load": {"requests": 1, "latency_s": {"50": 0.1}, "unanswered": 0}}\n',
    'fatal: [a]: FAILED! => {"msg": "no", "changed": false}\n',
]
PIP = [
    "Collecting numpy==9\n  ERROR: Could not find a version that satisfies the requirement numpy==9 (from versions: 1.0, 2.0)\n"
    "ERROR: No matching distribution found for numpy==9\n",
    "  error: subprocess-exited-with-error\n  × Building wheel for x (pyproject.toml) did not run successfully.\n"
    "  │ exit code: 1\n  ╰─> [1 lines of output]\n      error: no\n      [end of output]\n",
    "pip 24.0 from /usr/lib/python3/dist-packages/pip (python 3.13)\nHTTP error 404 while getting https://x/y.whl\n",
]
REGISTRY = [
    json.dumps({"schemaVersion": 2, "config": {"digest": DIGEST, "size": 1}, "layers": []}),
    json.dumps({"manifests": [{"mediaType": "a", "digest": DIGEST, "platform": {"os": "linux"}}]}),
    json.dumps({"architecture": "amd64", "os": "linux", "config": {"Labels": {"a": "b"}}, "token": "x"}),
    json.dumps({"errors": [{"code": "DENIED", "message": "no"}], "token": "x", "access_token": "y"}),
]
TARGETS = {
    "Dockerfile": Target(_swap("Dockerfile"), _corpus(".Dockerfile")),
    "compose or Kubernetes YAML": Target(_swap("compose.yaml"), _corpus(".yaml", ".yml")),
    "devcontainer.json": Target(_swap("devcontainer.json"), _corpus(".devcontainer.json", "devcontainer.json")),
    "requirements": Target(
        _requirements,
        lambda: [
            "numpy==2.0 --hash=sha256:00 ; python_version > '3'\n-r other.txt\n--index-url https://a:b@x/simple\n-e .[x]\n",
            "a @ https://x/a-1.0-py3-none-any.whl#egg=a\n--find-links ./wheels\nfile:///x/b-1.tar.gz\n./wheels \\\n  # c\n",
        ],
    ),
    "a variant's TOML": Target(_variant, _variants),
    "experiment.json": Target(_experiment, cache(lambda: [(REFERENCE / "experiment.json").read_text()]), is_json=True),
    "a cell's values": Target(_values, cache(lambda: [CELL.read_text()]), is_json=True),
    "a cell's profiles": Target(_profiles, cache(lambda: [store.profile_path(CELL).read_text()]), is_json=True),
    "a registry's answers": Target(_registry, lambda: REGISTRY, is_json=True),
    "an engine's events": Target(
        _transfer,
        lambda: [
            '{"status": "Pushing", "id": "a", "progressDetail": {"current": 1, "total": 2}}\n'
            f'{{"status": "Digest: {DIGEST}", "aux": {{"Digest": "{DIGEST}"}}}}\n{{"error": "denied"}}\n'
        ],
    ),
    "pip's output": Target(_pip, lambda: PIP),
    "pip's report": Target(lambda text, _: pip_output.parse_report(text), _reports, is_json=True),
    "a process's output": Target(_said, lambda: SAID),
    "an interpreter's facts": Target(
        lambda text, _: parse_facts(text),
        lambda: ["version=3.13.1\ngil=on\nloaded_libraries=a b\n"],
        refuses=(ValueError,),
    ),
}

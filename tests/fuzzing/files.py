# ruff: noqa: E501  the texts are what people write
"""What people write by hand: Dockerfiles, YAML, TOML, requirements, inventories, and the words of a command line."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from interlock.analysis.pick import criteria
from interlock.catalog import project, reading, rendering, selection, sources
from interlock.catalog.project import Catalog, FileTexts
from interlock.catalog.types import MOUNT, slug, split_label
from interlock.catalog.variants import Base, Difference, Family, Optimisation, VariantFile
from interlock.catalog.workloads import Workload, WorkloadFile
from interlock.cli.options import parse_duration, split_names
from interlock.engine.names import parse_registry
from interlock.engine.packages import dependency_files, requirements
from interlock.engine.packages.indexes import with_indexes
from interlock.errors import RequirementsError, SwapError
from interlock.fleet.ansible import parse_inventory
from interlock.results.store import require_name
from interlock.swap import files, image_names, variables
from interlock.swap.writing import read_file
from interlock.trial import options
from interlock.untrusted import printable
from tests.builders import ROOT
from tests.engine.packages.test_indexes import LOCKS
from tests.engine.packages.test_lock_files import PYPROJECT, environment
from tests.fuzzing.damage import Form, Target, each, of_text
from tests.swap.samples import PLAIN


def _written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def _swap(name: str) -> Callable[[str, Path], object]:
    def parse(text: str, folder: Path) -> object:
        read = read_file(_written(folder, name, text))
        with contextlib.suppress(SwapError):
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

    found = dependency_files.read(["r.txt"], read_text, lambda path: path.name == "wheels").here()
    places = requirements.local_places(found, MOUNT)
    requirements.line_for(found, "numpy", "https://[::1/x.whl", places)
    return requirements.pip_lines(found.lines, places), [requirements.display_text(one) for one in found.lines]


def _locked(text: str, _: Path) -> None:
    """A lock file, or a project's, whichever the text is: what it asks for, and of which index."""
    for name in (*LOCKS, PYPROJECT.name):
        with contextlib.suppress(RequirementsError):
            found = dependency_files.read([name], lambda _: text, lambda _: True).at(environment("3.9"))
            said = "".join(with_indexes(found, {}).notes)
            assert said == printable(said)


@cache
def _project() -> tuple[Catalog, FileTexts]:
    return project.load(ROOT), project.read_texts(ROOT)


@cache
def _variant_files() -> dict[str, VariantFile]:
    return reading.load_files(ROOT, "variants", VariantFile, VariantFile)


def _variant(text: str, folder: Path) -> object:
    """A variant among those of the project: read, held against all others, and rendered."""
    _written(folder, "variants/cpython-3.13.toml", text)
    catalog, texts = _project()
    name = "cpython-3.13"
    files = {**_variant_files(), **reading.load_files(folder, "variants", VariantFile, VariantFile)}
    optimisations = reading.load_table(ROOT, project.OPTIMISATIONS, Optimisation)
    found = project.complete(folder, files, catalog.sources, catalog.differences.values(), optimisations)[name]
    tag = found.image_tag
    others = {other: one for other, one in catalog.variants.items() if one.image_tag != tag}
    whole = catalog.model_copy(update={"variants": {**others, name: found}})
    project.check_consistency(whole)
    project._check_files(ROOT, whole)
    return rendering.render(found, catalog, texts)


def _workload(text: str, folder: Path) -> object:
    _written(folder, "workloads/startup.toml", text)
    found = reading.load_files(folder, "workloads", Workload, WorkloadFile)["startup"]
    catalog, _ = _project()
    project.check_consistency(catalog.model_copy(update={"workloads": {**catalog.workloads, found.name: found}}))
    return found


def _table(kind: Any) -> Callable[[str, Path], object]:
    def parse(text: str, folder: Path) -> object:
        _written(folder, "variants/table.toml", text)
        return reading.load_table(folder, "variants/table.toml", kind)

    return parse


def _sources(text: str, folder: Path) -> object:
    _written(folder, sources.FILE, text)
    known = sources.load(folder)
    return [known.releases(name) for name in known.channels]


def _claims(text: str, folder: Path) -> object:
    return project.load_claims(folder, _written(folder, "workloads/claims.toml", text))


def _tomls(*patterns: str) -> Callable[[], Sequence[str]]:
    @cache
    def texts() -> list[str]:
        paths = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
        return [path.read_text(encoding="utf-8") for path in paths if path.name not in SHARED]

    return texts


TABLES = ("bases", "families", "differences")
SHARED = (*(f"{name}.toml" for name in TABLES), "sources.toml")


@cache
def _tables() -> list[str]:
    names = (*(f"variants/{name}" for name in (*TABLES, "sources")), "workloads/claims")
    return [(ROOT / f"{name}.toml").read_text(encoding="utf-8") for name in names]


def _inventory(text: str, folder: Path) -> object:
    """What ansible-inventory prints is JSON: anything else has no way into it."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        text = json.dumps({"all": {"hosts": [text]}})
    return parse_inventory(folder / "inventory.yml", text)


INVENTORY = [
    json.dumps(
        {
            "_meta": {"hostvars": {"bench1": {"ansible_host": "192.0.2.1"}}},
            "all": {"children": ["ungrouped", "fast"]},
            "fast": {"hosts": ["bench1", "bench2"]},
        }
    )
]
WORDS = (
    "download=3", "download/many=2.5", "200MB", "1.5 GiB", "3.11.4", "3.14t", "2027-06-30", "end-of-life", "90s", "1.5h",
    "cpython-3.13,cpython-3.14t+jit", ":8000/health", "web.example:80", "wrk -t1 -c16 -d3s {url}/path", "8000/tcp", "NAME=VALUE",
    "2026-11-22-a", "registry.example:5000/team", "[::1]:5000/team", "cpython-3.13+no-gil",
    "python:3.13-slim-trixie", "public.ecr.aws/docker/library/python:3.13@sha256:" + "0" * 64, "localhost/interlock/python:3.14t-trixie",
    "${REGISTRY:-docker.io}/python:${VERSION:?no version}-slim", "$BASE", "mcr.microsoft.com/devcontainers/python:1-3.12-bookworm",
)  # fmt: skip


def _finite(number: float) -> None:
    assert math.isfinite(number), number


def _address(text: str) -> object:
    return options.parse_address(text).url("172.17.0.2")


def _names(text: str) -> object:
    """Names of images as they stand in users' files, with variables."""
    name = image_names.parse_name(text)
    with contextlib.suppress(variables.NoValue):
        variables.expand(text, {"VERSION": "3.13", "A": "$A"})
    variables.sole_variable(text)
    return name.untagged, image_names.python_image(text)


def _selected(text: str) -> object:
    catalog, _ = _project()
    chosen = split_names(text)
    selection.select_names(catalog.workloads, chosen, "workload")
    return selection.select_labels(catalog.variants, chosen)


OPTIONS: tuple[Callable[[str], object], ...] = (
    lambda text: criteria.parse_weights([text]),
    lambda text: criteria.parse_weights(text.split(" ")),
    lambda text: _finite(criteria.parse_size(text)),
    criteria.parse_version,
    criteria.parse_month,
    lambda text: criteria.parse_phases([text]),
    lambda text: _finite(parse_duration(text, "--budget")),
    _selected,
    _address,
    lambda text: options.exposed_address([text]),
    options.load_words,
    lambda text: options.settings_of("--env", [text], {"A": "b"}),
    lambda text: require_name(text, "--name"),
    lambda text: parse_registry(text, "--registry"),
    slug,
    split_label,
    _names,
)
FILES = {
    "Dockerfile": Target(_swap("Dockerfile"), _corpus(".Dockerfile")),
    "compose, Kubernetes and CI YAML": Target(_swap("compose.yaml"), _corpus(".yaml", ".yml")),
    "devcontainer.json": Target(_swap("devcontainer.json"), _corpus(".devcontainer.json", "devcontainer.json")),
    "requirements": Target(
        _requirements,
        lambda: [
            "numpy==2.0 --hash=sha256:00 ; python_version > '3'\n-r other.txt\n--index-url https://a:b@x/simple\n-e .[x]\n",
            "a @ https://x/a-1.0-py3-none-any.whl#egg=a\n--find-links ./wheels\nfile:///x/b-1.tar.gz\n./wheels \\\n  # c\n",
        ],
    ),
    "lock files and a project's": Target(_locked, lambda: [*LOCKS.values(), PYPROJECT.read_text(encoding="utf-8")]),
    "a variant's TOML": Target(_variant, _tomls("variants/*.toml")),
    "TOML of workloads, claims and tables": Target(
        each(
            _workload,
            _claims,
            _sources,
            *map(_table, (Base, Family, Difference)),
        ),
        lambda: [*_tomls("workloads/*.toml")(), *_tables()],
    ),
    "an inventory": Target(_inventory, lambda: INVENTORY, Form.JSON),
    "options and names of images": Target(each(*map(of_text, OPTIONS)), lambda: WORDS),
}  # fmt: skip

"""Packages that workloads require: got by a variant's own pip before anything is measured, in a volume that lasts.

A volume is known by the image and the requirement lines, so that the next experiment finds it. What is in it counts
once its record is there, which is written last: whoever is interrupted leaves a volume that the next one fills.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import APIError, DockerException, NotFound
from packaging.utils import canonicalize_name

from interlock.engine import cells, workbench
from interlock.engine.asking import requirements_file, why
from interlock.engine.builder import ensure_builder
from interlock.engine.client import OWNER_LABEL
from interlock.engine.image import Say
from interlock.engine.pip_settings import AUDIT, PipSettings, gather
from interlock.engine.workbench import WHEELS, Workbench
from interlock.errors import BuildError, EngineError
from interlock.model import Built, Catalog, Outcome, PackageSet, State
from interlock.pip_output import Blame, last_words, pip_version

# Of a volume: the image that its packages are for. With another image's id it is of no use any more.
IMAGE_LABEL = "interlock.packages"
FOLDER = "/packages"
REQUIREMENTS = f"{AUDIT}/requirements.txt"
ASK_S, FILL_S, INSTALL_S = 300, 3600, 900
# Before it a project without pyproject.toml is built with what is installed, and old images have no wheel.
GETS_WHEEL_ITSELF = (23, 1)
# Whoever installs the same at the same time may be first: then its files are there, and they are as good.
MOVE = 'mv -T "$1" "$2" 2>/dev/null || { test -d "$2" && rm -rf "$1"; }'
# At the place where cells have them: byte code that names another one is patched at every import. Some packages
# have files for other versions of Python, which do not compile.
COMPILE = 'python -m compileall -q "$1" >/dev/null 2>&1; chmod -R a+rX "$1"'


@dataclass(frozen=True)
class Installer:
    """Installs for the variants of a project; `say(variant, step)` is called for each step."""

    client: Any
    catalog: Catalog
    root: Path
    say: Say

    def tidy(self) -> None:
        """Volumes of images that are gone."""
        remove_stale(self.client)

    def ensure(self, image: Built, lines: Sequence[str]) -> PackageSet:
        """As they were installed before, or installed now; what cannot be had says so in its outcome."""
        packages = planned(image.image_id, lines)
        try:
            versions = _recorded(self.client, image.image_id, packages)
            if versions is None:
                versions = self._install(image, lines, packages)
            return packages.model_copy(update={"versions": versions})
        except (BuildError, EngineError) as error:  # of this variant, or its index: the others go on
            return packages.model_copy(update={"outcome": Outcome(state=State.FAILED, reason=error.found)})
        except _CannotError as error:
            return packages.model_copy(update={"outcome": Outcome(state=error.state, reason=str(error))})
        except DockerException as error:
            found = f"the engine ended an installation: {error}"
            raise EngineError(key=image.variant, found=found, todo="See the engine's log.") from None

    def _install(self, image: Built, lines: Sequence[str], packages: PackageSet) -> dict[str, str]:
        owner = f"packages-{uuid.uuid4().hex[:12]}"
        try:
            self.client.volumes.create(packages.volume, labels={IMAGE_LABEL: image.image_id})
            workbench.create_wheels_volume(self.client, owner)
            own = workbench.open_image(self.client, owner, image.image_id, {packages.volume: packages.place})
            pip = _pip_of(own, image.variant)
            self.say(image.variant, "preparing the builder")
            variant = self.catalog.variants[image.variant]
            builder_id = ensure_builder(self.client, self.root, image, variant, self.catalog.bases[variant.base])
            bench = workbench.open_builder(self.client, owner, builder_id, _settings(lines))
            self.say(image.variant, f"getting {', '.join(lines)}")
            wheels = _fill(bench, lines, pip)
            cells.remove(bench.container)
            self.say(image.variant, f"installing {len(wheels)} packages")
            return _settle(own, wheels, packages, owner)
        finally:
            cells.clean_up(self.client, owner)


class _CannotError(Exception):
    """Why the packages cannot be had, for people, and the state that it is for a cell."""

    def __init__(self, state: State, reason: str) -> None:
        super().__init__(reason)
        self.state = state


def planned(image_id: str, lines: Iterable[str]) -> PackageSet:
    """The volume and the place, which the image and the lines alone decide."""
    known_by = json.dumps([image_id, MOVE, COMPILE, *lines])
    key = hashlib.sha256(known_by.encode()).hexdigest()[:16]
    return PackageSet(volume=f"interlock-packages-{key}", place=f"{FOLDER}/{key}")


def remove_stale(client: Any) -> None:
    """Volumes of images that are gone; one that something still mounts stays."""
    there = {image["Id"] for image in client.api.images(all=True)}
    for volume in client.volumes.list(filters={"label": IMAGE_LABEL}):
        if volume.attrs["Labels"][IMAGE_LABEL] not in there:
            with suppress(APIError):
                volume.remove()


def _recorded(client: Any, image_id: str, packages: PackageSet) -> dict[str, str] | None:
    """The versions that were installed; None if there is no volume, or it never became whole."""
    try:
        client.volumes.get(packages.volume)
    except NotFound:
        return None
    container = client.containers.create(
        image_id,
        ["true"],
        entrypoint=[],
        volumes={packages.volume: {"bind": packages.place, "mode": "ro"}},
        labels={OWNER_LABEL: "packages"},
    )
    try:
        stream, _ = container.get_archive(_record(packages))
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as tar:
            member = tar.extractfile(tar.getmembers()[0])
            return dict(json.loads(member.read())) if member else None
    except NotFound:
        return None
    finally:
        cells.remove(container)


def _record(packages: PackageSet) -> str:
    return f"{packages.place}/interlock.json"


def _pip_of(own: Workbench, variant: str) -> tuple[int, int]:
    said = own.pip("--version", deadline_s=ASK_S)
    if said.late:
        raise _CannotError(State.FAILED, f"its pip had not said its version after {ASK_S} s")
    version = pip_version(said.output)
    if version is None:
        raise _CannotError(State.UNSUPPORTED, f"{variant} has no pip to install packages with")
    return version


def _settings(lines: Sequence[str]) -> PipSettings:
    return gather([], lines)


def _fill(bench: Workbench, lines: Sequence[str], pip: tuple[int, int]) -> list[str]:
    """The wheelhouse: the wheels' places, downloaded or built here."""
    if pip < GETS_WHEEL_ITSELF:
        said = bench.pip("install", "wheel", deadline_s=INSTALL_S)
        if not said.ok:
            raise _CannotError(State.FAILED, _sentence(why(bench, said, INSTALL_S, []), ["wheel"]))
    bench.put({REQUIREMENTS: requirements_file(lines)})
    said = bench.pip("wheel", "--wheel-dir", WHEELS, "-r", REQUIREMENTS, deadline_s=FILL_S)
    if not said.ok:
        raise _CannotError(State.FAILED, _sentence(why(bench, said, FILL_S, []), lines))
    return sorted(_must(bench, ["find", WHEELS, "-name", "*.whl"]).split())


def _sentence(found: Blame, lines: Sequence[str]) -> str:
    version = "" if found.made_up else f" {found.version}"
    subject = f"{found.name}{version}".strip() if found.name else ", ".join(lines)
    return f"{subject} cannot be had: {found.words}"


def _settle(own: Workbench, wheels: Sequence[str], packages: PackageSet, owner: str) -> dict[str, str]:
    """Installs without a network, and writes the record when all is in its place."""
    new = f"{packages.place}/.{owner}"
    if wheels:
        words = ["install", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--target", new]
        said = own.pip(*words, *wheels, deadline_s=INSTALL_S)
        if not said.ok:
            names = ", ".join(versions_of(wheels))
            raise _CannotError(State.FAILED, f"{names} cannot be installed: {last_words(said.output)}")
    else:
        _must(own, ["mkdir", new])
    _must(own, ["sh", "-c", MOVE, "sh", new, packages.site])
    _must(own, ["sh", "-c", COMPILE, "sh", packages.site])
    versions = versions_of(wheels)
    own.put({f"{packages.place}/.{owner}.json": json.dumps(versions).encode()})
    _must(own, ["mv", f"{packages.place}/.{owner}.json", _record(packages)])
    return versions


def _must(bench: Workbench, argv: list[str]) -> str:
    said = bench.run(argv, INSTALL_S)
    if not said.ok:
        raise _CannotError(State.FAILED, f"packages cannot be installed: {last_words(said.output)}")
    return said.output


def versions_of(wheels: Iterable[str]) -> dict[str, str]:
    """By canonical name, from the names of wheels: name, version and tags are joined by hyphens."""
    parts = [place.rpartition("/")[2].split("-") for place in wheels]
    return {canonicalize_name(name): version for name, version, *_ in parts}

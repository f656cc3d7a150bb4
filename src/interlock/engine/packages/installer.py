"""Packages that workloads require, installed by a variant's own pip before anything is measured, into a volume.

The image and the requirement lines name the volume, so that the next experiment finds it. A volume is complete once it
has its record, which is written last: an interrupted installation leaves a volume that the next one fills.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from docker import DockerClient
from docker.errors import APIError, NotFound
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from interlock.catalog.project import Catalog
from interlock.engine.client import engine_errors
from interlock.engine.packages import pip_container
from interlock.engine.packages.pip_container import AUDIT, WHEELS, PipContainer, ensure_builder, gather
from interlock.engine.packages.pip_output import failure, last_words
from interlock.engine.packages.resolving import requirements_file
from interlock.engine.protocol import OnStep
from interlock.engine.run import leftovers
from interlock.engine.run.archives import ContentError, image_archive
from interlock.engine.side_by_side import side_by_side, worker_count
from interlock.errors import BuildError, EngineError, UnsupportedHereError
from interlock.results.experiments import Built, Outcome, PackageSet, State
from interlock.untrusted import MOST_SAID, parse_json

# Label of a volume: the id of the image that its packages are for.
IMAGE_LABEL = "interlock.packages"
FOLDER = "/packages"
REQUIREMENTS = f"{AUDIT}/requirements.txt"
FILL_S, INSTALL_S = 3600, 900
CORRECT = "Correct the `packages` of the workload, or pip's settings on this machine."
# How long an interrupt waits for installations to end. A builder that is still being made ends with this process.
ABANDON_S = 5
# An older pip builds a project without pyproject.toml with what is installed, and old images lack `wheel`.
GETS_WHEEL_ITSELF = (23, 1)
# Another process may have installed the same packages meanwhile; then its files stay.
MOVE = 'mv -T "$1" "$2" 2>/dev/null || { test -d "$2" && rm -rf "$1"; }'
# Runs on any interpreter from 2.5 to 3.15. Files are compiled at the path that cells see: byte code with another path
# is patched at every import. Files for other versions of Python do not compile, and are skipped. Byte code that cannot
# be written is an error: cells cannot write it either, and would compile the module at each start of a process.
# `-m compileall` does not do: it ends with 0 whatever it could write, and did nothing on a variant that has it frozen.
COMPILE = """\
import os, py_compile, sys
for folder, _, names in os.walk(sys.argv[1]):
    for path in [os.path.join(folder, name) for name in names if name.endswith(".py")]:
        try:
            stored = py_compile.compile(path, doraise=True) or path + "c"
        except py_compile.PyCompileError:
            continue
        if not os.path.isfile(stored):
            sys.exit("no byte code of " + path)
"""


@dataclass(frozen=True)
class ImageInstaller:
    """Installs packages for the variants of a project; `on_step(variant, step)` is called for each step."""

    client: DockerClient
    catalog: Catalog
    root: Path
    on_step: OnStep
    at_work: set[str] = field(default_factory=set)  # the owners of what running installations have made
    abandoned: Event = field(default_factory=Event)

    def tidy(self) -> None:
        """Remove volumes of images that no longer exist, unless something still mounts them."""
        there = {image["Id"] for image in self.client.api.images(all=True)}
        for volume in self.client.volumes.list(filters={"label": IMAGE_LABEL}):
            if volume.attrs["Labels"][IMAGE_LABEL] not in there:
                with suppress(APIError):
                    volume.remove()

    def ensure_all(self, wanted: Sequence[tuple[Built, Sequence[str]]]) -> list[PackageSet]:
        """Return the packages of each image and its requirement lines; several variants are installed side by side.

        One builder serves all packages of a variant, so these are installed one after the other.
        """
        places: dict[str, list[int]] = {}
        for place, (image, _) in enumerate(wanted):
            places.setdefault(image.variant, []).append(place)
        installed: dict[int, PackageSet] = {}

        def install(variant: str) -> dict[int, PackageSet]:
            return {place: self.ensure(*wanted[place]) for place in places[variant]}

        try:
            for of_variant in side_by_side(install, list(places), worker_count(len(places))):
                installed |= of_variant
        except BaseException:
            self._abandon()
            raise
        return [installed[place] for place in range(len(wanted))]

    def _abandon(self) -> None:
        """Remove what running installations have made, until they end because it is gone."""
        end_s = time.monotonic() + ABANDON_S
        self.abandoned.set()
        while self.at_work and time.monotonic() < end_s:
            for owner in list(self.at_work):
                with suppress(EngineError):
                    leftovers.clean_up(self.client, owner)
            time.sleep(0.1)

    def ensure(self, image: Built, lines: Sequence[str]) -> PackageSet:
        """Return the packages, installed before or now; if they cannot be installed, the outcome says why."""
        packages = planned(image.image_id, lines)
        with engine_errors("the engine failed during the installation", image.variant):
            try:
                versions = _recorded(self.client, image.image_id, packages)
                if versions is None:
                    versions = self._install(image, lines, packages)
                return packages.model_copy(update={"versions": versions})
            except (BuildError, EngineError, UnsupportedHereError) as error:  # of this variant; the others go on
                state = State.UNSUPPORTED if isinstance(error, UnsupportedHereError) else State.FAILED
                return packages.model_copy(update={"outcome": Outcome(state=state, reason=error.found)})

    def _require_wanted(self) -> None:
        if self.abandoned.is_set():
            raise BuildError(found="it was interrupted", todo="Start it again.")

    def _install(self, image: Built, lines: Sequence[str], packages: PackageSet) -> dict[str, str]:
        owner = f"packages-{uuid.uuid4().hex[:12]}"
        self.at_work.add(owner)
        try:
            self._require_wanted()
            self.client.volumes.create(packages.volume, labels={IMAGE_LABEL: image.image_id})
            pip_container.create_wheels_volume(self.client, owner)
            own = pip_container.open_image(self.client, owner, image.image_id, {packages.volume: packages.mount_path})
            pip = own.pip_version()
            if pip is None:
                problem = f"{image.variant} has no pip to install packages with"
                raise UnsupportedHereError(found=problem, todo="Leave out the variant, or what needs packages.")
            self.on_step(image.variant, "preparing the builder")
            builder_id = ensure_builder(self.client, self.root, image, self.catalog)
            self._require_wanted()
            inside = pip_container.open_builder(self.client, owner, builder_id, gather(), fetches=True)
            self.on_step(image.variant, f"fetching {', '.join(names_of(lines))}")
            wheels = _fetch_wheels(inside, lines, pip)
            leftovers.remove(inside.container)
            self.on_step(image.variant, f"installing {len(wheels)} packages")
            return _install_offline(own, wheels, packages, owner)
        finally:
            leftovers.clean_up(self.client, owner)
            self.at_work.discard(owner)


def planned(image_id: str, lines: Iterable[str]) -> PackageSet:
    """Return a package set with its volume and folder, which depend on the image and the lines alone."""
    known_by = json.dumps([image_id, MOVE, COMPILE, *lines])
    key = hashlib.sha256(known_by.encode()).hexdigest()[:16]
    return PackageSet(volume=f"interlock-packages-{key}", mount_path=f"{FOLDER}/{key}")


def names_of(lines: Iterable[str]) -> list[str]:
    """Return the names of required packages, each once even if it has a line for each of several versions of Python."""
    return list(dict.fromkeys(Requirement(line).name for line in lines))


def _recorded(client: DockerClient, image_id: str, packages: PackageSet) -> dict[str, str] | None:
    """Return the installed versions; None without a volume, or with one that is incomplete."""
    try:
        client.volumes.get(packages.volume)
    except NotFound:
        return None
    mounted = {packages.volume: {"bind": packages.mount_path, "mode": "ro"}}
    try:
        with image_archive(client, image_id, _record(packages), MOST_SAID, "packages", volumes=mounted) as tar:
            entry = tar.getmembers()[0]
            member = tar.extractfile(entry) if entry.isreg() else None  # a link to itself has no end
            versions = parse_json(member.read()) if member else None
    except (ContentError, ValueError, IndexError):  # installed packages run, and may write there
        return None
    is_list = isinstance(versions, dict) and all(isinstance(version, str) for version in versions.values())
    return versions if is_list else None


def _record(packages: PackageSet) -> str:
    return f"{packages.mount_path}/interlock.json"


def _fetch_wheels(inside: PipContainer, lines: Sequence[str], pip: tuple[int, int]) -> list[str]:
    """Download or build the wheels and return their paths in the builder."""
    if pip < GETS_WHEEL_ITSELF:
        _pip(inside, ["wheel"], INSTALL_S, "install", "wheel")
    inside.put({REQUIREMENTS: requirements_file(lines)})
    _pip(inside, names_of(lines), FILL_S, "wheel", "--wheel-dir", WHEELS, "-r", REQUIREMENTS)
    return sorted(_must(inside, ["find", WHEELS, "-name", "*.whl"]).split())


def _pip(inside: PipContainer, names: Iterable[str], deadline_s: float, *words: str) -> None:
    """Run pip for these packages; BuildError says why they cannot be installed."""
    said = inside.pip(*words, deadline_s=deadline_s)
    if not said.ok:
        why = f"{'pip ' if said.timed_out else ''}{failure(said, deadline_s)}"
        raise BuildError(found=f"{', '.join(names)} cannot be installed: {why}", todo=CORRECT)


def _install_offline(own: PipContainer, wheels: Sequence[str], packages: PackageSet, owner: str) -> dict[str, str]:
    """Install the wheels without a network, then write the record; return the versions."""
    new = f"{packages.mount_path}/.{owner}"
    if wheels:
        words = ["install", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--target", new]
        _pip(own, versions_of(wheels), INSTALL_S, *words, *wheels)
    else:
        _must(own, ["mkdir", new])
    _must(own, ["sh", "-c", MOVE, "sh", new, packages.site])
    _must(own, ["python", "-c", COMPILE, packages.site])
    _must(own, ["chmod", "-R", "a+rX", packages.site])
    versions = versions_of(wheels)
    own.put({f"{packages.mount_path}/.{owner}.json": json.dumps(versions).encode()})
    _must(own, ["mv", f"{packages.mount_path}/.{owner}.json", _record(packages)])
    return versions


def _must(inside: PipContainer, argv: list[str]) -> str:
    said = inside.run(argv, INSTALL_S)
    if not said.ok:
        raise BuildError(found=f"packages cannot be installed: {last_words(said.stdout)}", todo=CORRECT)
    return said.stdout


def versions_of(wheels: Iterable[str]) -> dict[str, str]:
    """Return versions by canonical name, from wheels' file names (NAME-VERSION-TAGS, PEP 427)."""
    parts = [place.rpartition("/")[2].split("-") for place in wheels]
    return {canonicalize_name(name): version for name, version, *_ in parts}

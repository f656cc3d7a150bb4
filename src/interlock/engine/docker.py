"""Docker, and Podman by the same API, as the engine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.errors import ContainerError, DockerException

from interlock.catalog import selection
from interlock.catalog.project import Catalog
from interlock.catalog.types import MOUNT
from interlock.catalog.variants import Base
from interlock.engine import client as connection
from interlock.engine.build import builds, one_build
from interlock.engine.build.base import debian_mirrors, ensure_base, find_base, require_mmdebstrap
from interlock.engine.build.builds import ImageBuilder
from interlock.engine.build.helper_images import ensure_helper, find_helper
from interlock.engine.build.image import ImagePlan
from interlock.engine.build.places import Answers
from interlock.engine.build.training import Training, train
from interlock.engine.build.verifying import verify
from interlock.engine.client import Address, docker_address
from interlock.engine.ownership import Life, labels_of, lives_of, makers_of
from interlock.engine.packages.installer import COMPILE, ImageInstaller
from interlock.engine.protocol import INSTRUMENTS, BuildOptions, CoreSet, Feature, Needs, OnStep
from interlock.engine.run import containers, first_container, leftovers, one_shot
from interlock.engine.run.rights import without_rights
from interlock.engine.run.workspace import ContainerWorkspace
from interlock.errors import BuildError
from interlock.results.experiments import BaseImage, Built, EngineName, State

COMPILE_S = 60


def connect(engine: EngineName | None = None) -> DockerEngine:
    """Return the container engine that answers; NoEngineError says why none does and what to do."""
    return DockerEngine(*connection.open_client(engine))


@dataclass(frozen=True)
class DockerEngine:
    """A container engine that answers."""

    client: DockerClient
    address: Address = field(default_factory=docker_address)
    answers: Answers = field(default_factory=Answers)  # what places of sources answered in this run

    @property
    def is_elsewhere(self) -> bool:
        return self.address.is_elsewhere

    @property
    def name(self) -> EngineName:
        return connection.name_of(self.client)

    def cannot(self, feature: Feature) -> None:
        """Return None: what the machine lacks for a probe shows only when the probe is tried."""

    def facts(self) -> dict[str, Any]:
        return connection.engine_facts(self.client)

    def core(self, known: Catalog) -> CoreSet:
        return CoreSet(selection.select_labels(known.variants, [selection.CORE]), [])

    def build(self, known: Catalog, names: Sequence[str], options: BuildOptions, on_step: OnStep) -> list[Built]:
        one_shot.allow()
        try:
            built = builds.build(self._builder(known, options, on_step), names)
        except BaseException:
            one_build.end_all()
            with suppress(DockerException, *connection.NETWORK):  # an engine that has gone has ended them
                one_shot.end_all(self.client)
            raise
        if not options.verifies:
            return built
        again = self._builder(known, replace(options, rebuild=""), on_step)
        return [verify(again, name) for name in names]

    def to_train(
        self, known: Catalog, names: Sequence[str], options: BuildOptions, on_step: OnStep
    ) -> list[ImagePlan | Built]:
        """Return for each variant the plan to train, of the newest version that can be had, or why there is none."""
        return builds.decide(self._builder(known, options, on_step), names, lambda _: None)

    def train(self, plan: ImagePlan, options: BuildOptions, on_step: OnStep) -> Training:
        """Train what the plan would build."""
        return train(self.client, plan, options, on_step)

    def look_up(self, known: Catalog, names: Sequence[str], options: BuildOptions) -> list[Built]:
        builder = replace(self._builder(known, options, lambda *_: None), looks_only=True)
        return builds.look_up(builder, names)

    def plans(
        self, known: Catalog, names: Sequence[str], options: BuildOptions, on_step: OnStep
    ) -> list[list[ImagePlan] | Built]:
        """Return each variant's plans, the newest version first, or why the variant ends before anything is built."""
        builder = self._builder(known, options, on_step)
        return [builder.plans_or_end(known.variants[name]) for name in names]

    def _builder(self, known: Catalog, options: BuildOptions, on_step: OnStep) -> ImageBuilder:
        return ImageBuilder(known, options, on_step, self.client, answers=self.answers)

    def set_up(self, owner: str, needs: Needs) -> ContainerWorkspace:
        base = needs.base or next((image.base for image in needs.built if image.base is not None), None)
        if base is None:
            raise BuildError(found="no variant has an image", todo="Run `interlock build`.")
        instruments = ensure_helper(self.client, needs.root, INSTRUMENTS, base)
        volume = containers.create_instruments_volume(self.client, owner, instruments, needs.programs)
        for image in needs.built if needs.programs else ():
            if image.outcome.state is State.OK:
                _store_byte_code(self.client, owner, image.image_id, volume)
        return ContainerWorkspace(
            self.client,
            owner,
            instruments,
            volume,
            {name: ensure_helper(self.client, needs.root, name, base) for name in needs.helpers},
            is_elsewhere=self.is_elsewhere,
            users=needs.users,
        )

    def find_workspace(self, owner: str, root: Path, base: Base) -> ContainerWorkspace | None:
        """Return a workspace to try probes in, without building anything; None if the instruments are missing."""
        instruments = find_helper(self.client, root, INSTRUMENTS, base)
        return None if instruments is None else ContainerWorkspace(self.client, owner, instruments)

    def ensure_base(self, base: Base, cache: Path, on_step: OnStep) -> BaseImage:
        """Return the base; pull or make it if it is not here."""
        return ensure_base(self.client, base, cache, lambda text: on_step("base", text))

    def base_words(self, base: Base) -> str:
        """Return where a base is, or would come from; InterlockError says why it cannot be had."""
        there = find_base(self.client, base)
        if there is not None:
            return f"{there.reference} is here (from {there.origin})"
        with suppress(DockerException):
            self.client.images.get_registry_data(base.reference)
            return f"the registry has {base.reference}"
        require_mmdebstrap()
        mirror, _ = debian_mirrors()
        return f"no registry answers; mmdebstrap will make {base.suite} from {mirror}"

    def exposed_ports(self, image_id: str) -> list[str]:
        """Return what an image EXPOSEs, as in 8000/tcp."""
        return list(self.client.images.get(image_id).attrs["Config"].get("ExposedPorts") or {})

    def tag(self, image_id: str, name: str) -> None:
        """Give an image another name."""
        connection.put_tag(self.client.images.get(image_id), name)

    def remove_untagged(self, image_ids: Sequence[str]) -> None:
        """Remove those of the images that have no tag and that nothing needs."""
        with connection.engine_errors("images cannot be removed"):
            leftovers.remove_images(self.client, image_ids)

    def installer(self, known: Catalog, root: Path, on_step: OnStep) -> ImageInstaller:
        return ImageInstaller(self.client, known, root, on_step)

    def owners(self) -> dict[str, Life]:
        return lives_of(leftovers.labels_by_owner(self.client))

    def makers(self) -> dict[int, str]:
        return makers_of(leftovers.labels_by_owner(self.client))

    def clean_up(self, owner: str) -> None:
        """Remove everything of an owner; EngineError names what stays, or says that the engine does not answer."""
        with connection.engine_errors("what was started cannot be removed (`interlock clean` does it later)"):
            leftovers.clean_up(self.client, owner)

    def try_container(self) -> str:
        """Return why no container can be started, in the engine's words; empty if one can."""
        return first_container.why_no_container(self.client)

    def require_answer(self) -> None:
        """Raise EngineError if the engine is gone."""
        connection.require_answer(self.client)


def _store_byte_code(client: DockerClient, owner: str, image_id: str, volume: str) -> None:
    """Compile the workloads' programs with an image's interpreter.

    Cells mount the programs read-only, so every process would compile them again at its start. A program that cannot be
    compiled says why when it runs.
    """
    with suppress(ContainerError):
        client.containers.run(
            image_id,
            ["timeout", "-k", "5", str(COMPILE_S), "python", "-c", COMPILE, f"{MOUNT}/workloads"],
            entrypoint=[],
            network_mode="none",
            remove=True,
            volumes={volume: {"bind": MOUNT, "mode": "rw"}},
            labels=labels_of(owner),
            **containers.memory_limits(),
            **without_rights(),
        )

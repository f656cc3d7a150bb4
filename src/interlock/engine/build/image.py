"""One image: its plan and context, its build with log and labels, its tag, and the proof that it is what its file says.

The proof asks the interpreter in the image what it is, and takes nobody else's word for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from docker import DockerClient
from docker.errors import APIError, DockerException
from docker.models.images import Image

from interlock import __version__
from interlock.catalog.sources import host_of
from interlock.catalog.variants import SourceKind, Variant
from interlock.engine import symbols
from interlock.engine.build.one_build import EXIT_CODE, last_words, run_build, written_for
from interlock.engine.build.sources import MIRROR, local_files, mirror_url, pack, packed_files
from interlock.engine.client import HASH_LABEL, disk_full, no_space, put_tag
from interlock.engine.ended import run_here
from interlock.engine.names import image_by_tag, known_digest
from interlock.engine.protocol import BuildOptions, OnStep
from interlock.engine.run import leftovers, one_shot
from interlock.errors import BuildError, InterlockError, NoProfileError, SourceUnavailableError
from interlock.results.experiments import BaseImage, Built, Facts, Outcome, PassedOver, State, Subject
from interlock.untrusted import printable

# Seconds where builds fill every core; it takes less than one.
PROOF_S = 120
# The build argument by which a Dockerfile names its parent image.
BASE_ARGUMENT = {kind: "IMAGE" if kind is SourceKind.IMAGE else "BASE" for kind in SourceKind}
# Exit codes of fetch.sh: no place has the source; the file has another sum; another key has signed it.
UNAVAILABLE, WRONG_SUM, WRONG_SIGNATURE = 69, 65, 66
# Exit code of optimise.sh: no stored profile is for this compiler.
NO_PROFILE, NO_PROFILE_WORDS = 67, re.compile("interlock: (no profile is stored for .+): with TRAIN")
TRAINING_LABEL = "interlock.training"
# The stage that only trains, and holds what was counted.
PROFILE_STAGE = "profile"
TRIED = re.compile(r"^interlock: tried (\S+): (?:curl: \(\d+\) )?(.+)$", re.MULTILINE)
# git tracks this file in every clone of the project. A copy inside another repository has that one's commits, not ours.
TRACKED_FILE = "variants/bases.toml"


@dataclass(frozen=True, kw_only=True)
class BuildPlan:
    """What to build: every file that the build reads except the sources, and the hash that identifies the result."""

    variant: Variant
    files: Mapping[str, bytes]
    content_hash: str
    passed_over: Sequence[PassedOver] = ()  # newer versions of the variant
    trains: bool = False  # the variant is built with a profile, and no stored one fits

    @property
    def training(self) -> Literal["stored", "here"] | None:
        """Return where the profile of optimisation comes from; None if it is built without one."""
        if not self.variant.is_trained:
            return None
        return "here" if self.trains else "stored"

    def built(self, image_id: str, size_bytes: int, *, reused: bool) -> Built:
        """Return the record of what was built by this plan."""
        return Built(
            variant=self.variant.name,
            outcome=Outcome(state=State.OK),
            image_id=image_id,
            content_hash=self.content_hash,
            size_bytes=size_bytes,
            reused=reused,
            optimisations=self.variant.optimisations,
            training=self.training,
            version=self.variant.version,
            passed_over=list(self.passed_over),
        )


@dataclass(frozen=True, kw_only=True)
class ImagePlan(BuildPlan):
    """An image to build, and what it is built from."""

    base: BaseImage
    prefix: Path | None = None  # of this machine, if the variant is packed from one
    is_shared: bool = False  # another variant starts from this build, or this one from another's

    @property
    def tag(self) -> str:
        return self.variant.image_tag


def build_image(
    client: DockerClient, plan: ImagePlan, options: BuildOptions, on_step: OnStep, stage: str | None = None
) -> str:
    """Build an image, or one stage of it, and return its id; it is not proved yet and has no tag.

    A failed build raises its reason. The stage with the symbols comes out of the engine's cache.
    """
    arguments = {
        BASE_ARGUMENT[plan.variant.kind]: plan.base.reference,
        "TRAIN": "only" if stage == PROFILE_STAGE else plan.training or "",
        "JOBS": str(make_jobs()),
        MIRROR: mirror_url(),
        "REBUILD": options.rebuild,
    }
    packed = {"prefix.tar": pack(plan.prefix, packed_files(plan.prefix))} if plan.prefix else {}
    labels = {HASH_LABEL: plan.content_hash, **provenance_labels(options.root, plan.base)}
    dockerfile, given = written_for(
        client, plan.files["Dockerfile"].decode(), arguments, labels, is_shared=plan.is_shared
    )
    if stage == symbols.STAGE:
        given["labels"][symbols.LABEL] = plan.content_hash
    name = plan.variant.name
    log: list[str] = []
    image_id = run_build(
        client,
        {**plan.files, "Dockerfile": dockerfile, **local_files(plan.variant, options.cache), **packed},
        log,
        lambda step: on_step(name, step),
        target=stage,
        **given,
    )
    path = keep_log(options.cache, f"{name}-{stage}" if stage else name, log)
    if image_id is None:
        raise build_failure("".join(log), plan.variant, str(path))
    return image_id


def make_jobs() -> int:
    """Return make's -j. It is the same for every build, because the engine's cache identifies a build by it too."""
    return os.cpu_count() or 1


def find_image(client: DockerClient, tag: str, content_hash: str) -> Image | None:
    """Return the image with this tag if it was built from this content, else None."""
    image = image_by_tag(client, tag)
    return image if image and image.labels.get(HASH_LABEL) == content_hash else None


def build_aside(client: DockerClient, files: Mapping[str, bytes], what: str, dockerfile: str, **options: Any) -> str:
    """Build a shared stage or a helper image and return its id; BuildError or EngineError if that fails."""
    log: list[str] = []
    image_id = run_build(client, files, log, lambda _: None, **options)
    if image_id is None:
        raise engine_failure("".join(log), what, dockerfile)
    return image_id


def ask_facts(client: DockerClient, image_id: str) -> Facts:
    """Return what the interpreter in the image says of itself; BuildError if it does not start."""
    try:
        said = one_shot.ask(client, image_id, ["python", "-c", QUESTION], PROOF_S)
        if said.timed_out:
            raise no_answer(f"it did not end within {PROOF_S} s", image_id)
        if not said.ok:
            raise no_answer(said.stderr, image_id)
        return parse_facts(said.stdout)
    except (DockerException, ValueError) as error:
        raise no_answer(str(error), image_id) from None


def content_hash(files: Mapping[str, bytes], parent: str) -> str:
    """Return the SHA-256 over the context's files and what identifies the parent (a base's chain id)."""
    parts = {
        "base": parent,
        "files": {path: hashlib.sha256(data).hexdigest() for path, data in sorted(files.items())},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def read_context(folder: Path) -> dict[str, bytes]:
    """Return the files of a build context, by path below its folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def build_failure(log: str, variant: Variant, path: str) -> InterlockError:
    """Return the error for a variant's failed build; `path` is where its log is kept."""
    file = variant.file
    places = dict.fromkeys(f"{host_of(url)}: {said}" for url, said in TRIED.findall(log))
    tried = "; ".join(places) or "no location could be tried"
    if no_space(log):
        return engine_failure(log, variant.name, path)
    if EXIT_CODE.format(UNAVAILABLE) in log:
        return SourceUnavailableError(
            file=file, key="places", found=tried, todo=f"Set {MIRROR} to a URL or folder that has the file."
        )
    if EXIT_CODE.format(NO_PROFILE) in log:
        why = next(iter(NO_PROFILE_WORDS.findall(log)), "no stored profile fits")
        return NoProfileError(file=file, found=why, todo="Train one: interlock train")
    if EXIT_CODE.format(WRONG_SUM) in log:
        return BuildError(
            file=file,
            key="sha256",
            found=f"no location has a file with this SHA-256. Tried: {tried}",
            todo=f"Correct sha256 or places, or put the right file into a folder and set {MIRROR} to it.",
        )
    if EXIT_CODE.format(WRONG_SIGNATURE) in log:
        return BuildError(
            file=file,
            key="signature",
            found=f"the source has the declared SHA-256, but its signature is not valid: {tried}",
            todo="Do not use the source before you know who signed it; then correct the key or sha256.",
        )
    return engine_failure(log, variant.name, path)


def engine_failure(log: str, what: str, path: str) -> InterlockError:
    """Return the error for any failed build: a full disk, or the last lines of its log."""
    if no_space(log):
        return disk_full(f"building {what}")
    return BuildError(file=path, found=f"building {what} failed: {last_words(log)}", todo=f"Read the whole log: {path}")


def keep_log(cache: Path, name: str, log: Iterable[str]) -> Path:
    """Write a log below the cache and return its path; if it cannot be kept, the build goes on without."""
    path = cache / "logs" / f"{name}.log"
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(printable("".join(log)), encoding="utf-8")
    return path


def provenance_labels(root: Path, base: BaseImage) -> dict[str, str]:
    """Return the OCI image specification's revision, base.name and base.digest, and Interlock's version.

    A base that mmdebstrap made has no digest in any registry: the local image's id takes its place.
    """
    name, _, digest = base.reference.partition("@")
    commit = project_revision(root)
    return {
        **({"org.opencontainers.image.revision": commit} if commit else {}),
        "org.opencontainers.image.base.name": name,
        "org.opencontainers.image.base.digest": digest or base.image_id,
        "interlock.version": __version__,
    }


def project_revision(root: Path) -> str | None:
    """Return the project's commit, with `-dirty` if files were changed since; None outside git."""
    commit = _git(root, "rev-parse", "HEAD")
    if commit is None or _git(root, "ls-files", "--error-unmatch", "--", TRACKED_FILE) is None:
        return None
    return f"{commit}-dirty" if _git(root, "status", "--porcelain", "--", ".") else commit


def _git(root: Path, *words: str) -> str | None:
    """Return git's output in this folder; None if git fails or is not installed."""
    done = run_here(["git", "-C", str(root), *words])
    return done.stdout.strip() if done.ok else None


def take_tag(client: DockerClient, image_id: str, tag: str) -> Image:
    """Give the image the tag and remove the image that had it, unless somebody may still use that one."""
    replaced = id_of_tag(client, tag)
    image = client.images.get(image_id)
    put_tag(image, tag)
    if replaced not in {None, image.id}:
        remove_replaced(client, str(replaced))
    return client.images.get(image_id)


def remove_replaced(client: DockerClient, image_id: str) -> None:
    """Remove an image that has lost its tag; it stays if something uses it, or another process may measure it."""
    with suppress(APIError):
        if not leftovers.others_at_work(client):
            client.images.remove(image_id)


def id_of_tag(client: DockerClient, tag: str) -> str | None:
    """Return the id of the image that has the tag now, or None."""
    image = image_by_tag(client, tag)
    return str(image.id) if image else None


def describe_image(plan: ImagePlan, image: Image, *, reused: bool) -> Built:
    """Return the record of the image that has a plan's tag."""
    update = {
        "tag": plan.tag,
        "digest": known_digest(image),
        "base": plan.base,
        "training": "here" if image.labels.get(TRAINING_LABEL) == "here" else plan.training,
    }
    return plan.built(str(image.id), image.attrs["Size"], reused=reused).model_copy(update=update)


QUESTION = files("interlock.engine").joinpath("inside/facts.py").read_text(encoding="utf-8")


def parse_facts(output: str) -> Facts:
    """Read the lines `key=value` that inside/facts.py prints."""
    pairs = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    return Facts.model_validate(
        {
            **pairs,
            "loaded_libraries": pairs.get("loaded_libraries", "").split(),
            "mapped_files": [path for path in pairs.get("mapped_files", "").split(":") if path],
            "thread_error": pairs.get("thread_error") or None,
        }
    )


def no_answer(said: str, where: str) -> BuildError:
    """Return the error for an interpreter that did not say what it is; `said` is what it printed instead."""
    return BuildError(
        file=where,
        found=f"the built interpreter does not answer: {' '.join(said.strip().splitlines()[-1:])}",
        todo="See the build's log (`interlock build` names it).",
    )


def contradictions(variant: Variant, facts: Facts) -> list[tuple[str, str, str]]:
    """Return (key, declared, found) for each declaration that the image contradicts."""
    proof = variant.proof
    checks = [
        ("version", variant.version, facts.version.rstrip("+")),
        ("proof.implementation", proof.implementation, facts.implementation),
        ("proof.thread_flavour", proof.thread_flavour.value, facts.thread_flavour.value),
        ("proof.gil", proof.gil.value, facts.gil.value),
    ]
    wrong = [(key, declared, actual) for key, declared, actual in checks if declared != actual]
    if proof.thread_library is not None and proof.thread_library not in facts.loaded_libraries:
        wrong.append(("proof.thread_library", proof.thread_library, " ".join(facts.loaded_libraries)))
    if facts.optimisation != proof.optimisation:
        wrong.append(("proof.optimisation", proof.optimisation, facts.optimisation))
    return wrong


def require_proof(variant: Variant, facts: Facts) -> None:
    """Raise BuildError for the first declaration that the image contradicts."""
    for key, declared, actual in contradictions(variant, facts):
        raise BuildError(
            file=variant.file,
            key=key,
            found=f"declared '{declared}', but the built image shows '{actual}'",
            todo="Correct the build's flags, or declare what it really is.",
        )


def broken_mode(subject: Subject, facts: Facts) -> str:
    """Return why the interpreter is not in the subject's mode, or an empty text.

    The loader only warns about a library that it cannot preload, and the program goes on without it.
    """
    if subject.gil not in {None, facts.gil}:
        return f"the mode declares GIL '{subject.gil}', but the interpreter shows '{facts.gil}'"
    for library in subject.environment.get("LD_PRELOAD", "").replace(":", " ").split():
        if PurePosixPath(library).name not in facts.loaded_libraries:
            return f"the mode preloads {library}, but the loader did not take it"
    return ""

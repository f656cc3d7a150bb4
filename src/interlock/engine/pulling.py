"""Which image of a variant is pulled: the newest version that the registry has, or the published one by its digest."""

from __future__ import annotations

from collections.abc import Sequence

from docker import DockerClient

from interlock.catalog import published
from interlock.catalog.project import Catalog
from interlock.catalog.published import Published
from interlock.engine.build.image import ImagePlan, id_of_tag
from interlock.engine.names import Registry
from interlock.engine.protocol import OnStep
from interlock.engine.registry import Moved, pull, why_missing
from interlock.errors import TagError


def published_names(known: Catalog, names: list[str], *, named: bool) -> list[str]:
    """Return the variants that are published; TagError if a named one is not, or none is."""
    there = [name for name in names if name in known.published]
    for name in names if named else ():
        if name not in there:
            raise _unpublished(name, "is not published")
    if not there:
        raise _unpublished("", "nothing is published yet")
    return there


def _unpublished(name: str, problem: str) -> TagError:
    """Return the error for an image that the project has not published."""
    todo = f"Build it (`interlock build {name or 'VARIANT'}`), or name a team's registry with --registry."
    return TagError(file=published.FILE, key=name, found=problem, todo=todo)


def pull_published(
    client: DockerClient, versions: list[ImagePlan], place: Registry, on_step: OnStep, expected: Published
) -> Moved:
    """Pull a published image by its digest; TagError if the registry no longer has it."""
    for passed, plan in enumerate(versions):
        if plan.variant.version == expected.version:
            row = _pulled(client, plan, place, on_step, expected.digest)
            if row is not None:
                return row._replace(note=_why_older(plan, versions[:passed], f"{published.FILE} has none"))
    problem = f"{place.name} has no image {expected.digest} of {expected.version} any more"
    raise _unpublished(versions[0].variant.name, problem)


def pull_newest(
    client: DockerClient, versions: list[ImagePlan], place: Registry, on_step: OnStep, *, named: bool
) -> Moved | None:
    """Pull the newest version of an image that the registry has.

    None if the registry has none and the variant was not named. TagError if it was named, or if the tag's image was
    built from other files.
    """
    for passed, plan in enumerate(versions):
        row = _pulled(client, plan, place, on_step)
        if row is not None:
            return row._replace(note=_why_older(plan, versions[:passed], f"{place.name} has no image"))
    newest = versions[0]
    of_other_files = why_missing(client, newest, place)
    if of_other_files is not None:
        raise of_other_files
    if named:
        raise TagError(
            key=newest.variant.name,
            found=f"{place.name} has no image of it that was built from its current file",
            todo=f"Push it where it is built: interlock push --registry {place.name} {newest.variant.name}",
        )
    return None


def _why_older(plan: ImagePlan, newer: Sequence[ImagePlan], who_lacks: str) -> str:
    """Return which newer versions are not there, though other places may have them; empty if it is the newest."""
    lacking = " and ".join(one.variant.version for one in newer)
    return f"{plan.variant.version}, because {who_lacks} of {lacking}" if newer else ""


def _pulled(client: DockerClient, plan: ImagePlan, place: Registry, on_step: OnStep, digest: str = "") -> Moved | None:
    before = id_of_tag(client, plan.tag)
    pulled = pull(client, plan, place, on_step, digest)
    if pulled is None:
        return None
    return Moved(pulled, "unchanged" if pulled.image_id == before else "pulled")

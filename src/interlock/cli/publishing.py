"""Publishing variants: what `push --record` writes on each platform, and the command that joins and signs it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from docker import DockerClient
from rich.text import Text

from interlock.catalog.project import Catalog
from interlock.catalog.published import FILE, Published, load_published, tag_of, tags_of, written
from interlock.cli.options import console, open_clone
from interlock.engine import publishing
from interlock.engine.names import Registry
from interlock.engine.publishing import Signer
from interlock.engine.registry import platform_name, require_cosign
from interlock.errors import CatalogError, StoreError, UsageError
from interlock.results.experiments import Built
from interlock.results.files import write_atomically

# What one platform pushed of a variant, and the folder that says so.
Part = tuple[Path, Published]


def record(client: DockerClient, known: Catalog, pushed: Sequence[Built], registry: Registry, folder: Path) -> None:
    """Write into a folder what was pushed here, with the bill of materials and the provenance of each image."""
    from interlock.engine.build import sbom  # noqa: PLC0415 - its extra is not always there

    entries = {}
    for built in pushed:
        variant, image = known.variants[built.variant].at(built.version), client.images.get(built.tag)
        entries[variant.name] = Published(
            name=variant.name,
            registry=registry.name,
            tag=tag_of(variant),
            digest=str(built.digest).partition("@")[2],
            platforms=[platform_name(image.attrs)],
            version=variant.version,
            signed=False,
            date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        )
        bill = sbom.document(variant, sbom.read_contents(client, built.tag))
        write_atomically(folder / f"{variant.name}{publishing.SBOM}", bill)
        origin = publishing.provenance(variant, built, image.labels)
        write_atomically(folder / f"{variant.name}{publishing.PROVENANCE}", origin)
    write_atomically(folder / Path(FILE).name, written(entries))
    console.print(Text(f"record  {folder}: `interlock publish {folder}` gives the images their tags"), soft_wrap=True)


def publish_command(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER", help="Folders that `interlock push --record` wrote, one for each platform."),
    ],
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="FILE", help="Cosign's private key (default: the CI job's own identity signs)."),
    ] = None,
    unsigned: Annotated[bool, typer.Option("--unsigned", help="Publish without signatures, and say so.")] = False,
) -> None:
    """Tag, sign and record what was pushed on each platform.

    variants/published.toml then has their digests, which `pull` and `swap` take.
    """
    if unsigned and key is not None:
        raise UsageError(key="--unsigned", found="is given with --key", todo="Leave one out.")
    if not unsigned:
        require_cosign("publish", "publish without signatures: --unsigned")
    paths, known = open_clone(f"whose {FILE} it would write")
    published = dict(known.published)
    for name, parts in _parts(folders, known).items():
        old, new = published.get(name), _publish(known, name, parts, published, None if unsigned else Signer(key))
        published[name] = new
        write_atomically(paths.root / FILE, written(published))
        state = f"{'signed' if new.signed else 'not signed'}{' (unchanged)' if new == old else ''}"
        line = f"{name}  {' '.join(new.platforms)}  {state}\n  FROM {new.reference}"
        console.print(Text(line), soft_wrap=True)


def _parts(folders: Sequence[Path], known: Catalog) -> dict[str, list[Part]]:
    """Return what each platform pushed of each variant; CatalogError if they do not belong together."""
    by_variant: dict[str, list[Part]] = {}
    for folder in folders:
        file = folder / Path(FILE).name
        if not file.is_file():
            todo = "Push variants with `interlock push --record FOLDER`, which writes it."
            raise StoreError(file=str(file), found="no such file", todo=todo)
        for name, entry in load_published(Path(), known.variants, str(file)).items():
            by_variant.setdefault(name, []).append((folder, entry))
    for name, parts in by_variant.items():
        _require_one(name, parts)
    if not by_variant:
        todo = "Push variants with `interlock push --record FOLDER`."
        raise CatalogError(file=Path(FILE).name, found=f"no image in {', '.join(map(str, folders))}", todo=todo)
    return by_variant


def _require_one(name: str, parts: Sequence[Part]) -> None:
    """Raise CatalogError for two platforms with different releases or names, or one platform twice."""
    (first, entry), *further = parts
    seen = set(entry.platforms)
    for folder, other in further:
        wrong = [key for key in ("registry", "tag", "version") if getattr(entry, key) != getattr(other, key)]
        wrong += ["platforms"] if seen & set(other.platforms) else []
        seen.update(other.platforms)
        for key in wrong:
            file, found = str(folder / Path(FILE).name), f"{getattr(other, key)}, and in {first} {getattr(entry, key)}"
            raise CatalogError(file=file, key=f"{name}.{key}", found=found, todo="Push each platform from these files.")


def _publish(
    known: Catalog, name: str, parts: Sequence[Part], published: Mapping[str, Published], signer: Signer | None
) -> Published:
    """Tag, attest and sign what was pushed of a variant; what is published already stays as it is recorded."""
    entries = [entry for _, entry in parts]
    first = entries[0]
    variant = known.variants[name].at(first.version)
    digest = publishing.join(entries, tags_of(variant))
    old = published.get(name)
    known_as = (first.repository, first.tag, digest)
    if old is not None and (old.repository, old.tag, old.digest) == known_as and (old.signed or signer is None):
        return old
    if signer is not None:
        for folder, entry in parts:
            signer.attest(f"{entry.repository}@{entry.digest}", folder, name)
        signer.sign(f"{first.repository}@{digest}")
    platforms = sorted(platform for entry in entries for platform in entry.platforms)
    return first.model_copy(update={"digest": digest, "platforms": platforms, "signed": signer is not None})

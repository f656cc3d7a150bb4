"""Commands that carry images to a machine without a registry: save and load."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from interlock import untrusted
from interlock.catalog import project
from interlock.cli import progress
from interlock.cli.images import build_options, build_variants, fail_on_failed_builds, write_generated
from interlock.cli.options import Key, Release, SigningKeyFile, Variants, console, open_project
from interlock.engine.docker import connect
from interlock.engine.registry import archives
from interlock.engine.registry.keys import read_public_key, read_signing_key
from interlock.errors import StoreError, UsageError, missing_option
from interlock.results import store
from interlock.results.experiments import Built, require_built

ArchiveFile = Annotated[Path, typer.Argument(metavar="FILE", help="Archive to write.", dir_okay=False)]


def save_command(
    file: ArchiveFile, variants: Variants = None, release: Release = False, key: SigningKeyFile = None
) -> None:
    """Save built variants in one archive.

    The archive contains the base image too. `interlock load` reads it, and needs the SHA-256 that this command prints
    or the signature that --key writes next to the archive.
    """
    signer = read_signing_key(key) if key else None
    paths, known = open_project()
    names = project.select_names(known.variants, variants, "variant")
    write_generated(paths, known)
    containers = connect()
    built = build_variants(containers, known, names, build_options(paths, release))
    fail_on_failed_builds(built)
    tags = tags_to_send(built)
    with progress.open_display(as_json=False) as display:
        transfers = progress.TransferProgress(display, "save", 1)
        found = archives.save(containers.client, tags, file, lambda step: transfers(file.name, step))
    if signer is not None:
        store.write_atomically(archives.signature_file(file), archives.signature_text(found, signer))
        console.print(Text(f"sign    {archives.signature_file(file)}"), soft_wrap=True)
    console.print(Text(f"save    {len(tags)} images, {file.stat().st_size / 1e6:.0f} MB: {file}"), soft_wrap=True)
    console.print(Text(f"load it with: interlock load --sha256 {found} {file.name}"), soft_wrap=True)


def load_command(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Archive that `interlock save` wrote.", dir_okay=False)
    ] = None,
    sha256: Annotated[
        str, typer.Option("--sha256", metavar="SUM", help="The archive's SHA-256, as `interlock save` printed it.")
    ] = "",
    key: Key = None,
    missing: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", dir_okay=False, help="JSON of image ids by tag: only print the tags that are missing here."
        ),
    ] = None,
) -> None:
    """Load images from an archive.

    An archive can contain any image: get its SHA-256 from a person you trust, or check its signature (FILE.sig) with
    --key. Images of measuring instruments are not in it and are built here.
    """
    if (file is None) == (missing is None):
        given = "neither" if file is None else "both"
        raise UsageError(key="--missing", found=f"{given} given", todo="Give exactly one of FILE and --missing FILE.")
    if missing is not None:
        for tag in archives.missing(connect().client, _read_image_ids(missing)):
            sys.stdout.write(f"{tag}\n")
    elif file is not None:
        if not sha256 and key is None:
            todo = "Give the sum that `interlock save` printed where the archive was written, or --key."
            raise missing_option("--sha256", todo)
        signer = read_public_key(key) if key else None
        for tag in archives.load(connect().client, file, sha256, signer):
            console.print(Text(f"load    {tag}"), soft_wrap=True)


def tags_to_send(built: list[Built]) -> list[str]:
    """Return the tags of the images that another engine needs to measure these variants without building them.

    UsageError if no variant is built.
    """
    ready = require_built(built)
    # A base from a registry is pulled again, because an archive does not keep its digest.
    bases = [one.base.reference for one in ready if one.base and one.base.origin == "mmdebstrap"]
    return list(dict.fromkeys([*bases, *(one.tag for one in ready)]))


def _read_image_ids(path: Path) -> dict[str, str]:
    """Read the file of --missing; StoreError if it is not JSON of ids by tag."""
    try:
        found = untrusted.parse_json(untrusted.read_text(path))
        return {str(tag): str(image_id) for tag, image_id in found.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise StoreError(
            file=str(path),
            found=f"is not JSON of image ids by tag ({error})",
            todo='Write it as {"TAG": "sha256:..."}.',
        ) from None

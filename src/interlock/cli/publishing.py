"""The command that joins, tags and signs what `push --record` pushed on each platform."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interlock.catalog.published import FILE, written
from interlock.cli.options import console, open_clone
from interlock.engine import publishing
from interlock.engine.registry import require_cosign
from interlock.errors import UsageError
from interlock.results.files import write_atomically


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
    published, signer = dict(known.published), None if unsigned else publishing.Signer(key)
    for name, parts in publishing.parts_of(folders, known).items():
        old, new = published.get(name), publishing.publish(known, name, parts, published, signer)
        published[name] = new
        write_atomically(paths.root / FILE, written(published))
        state = f"{'signed' if new.signed else 'not signed'}{' (unchanged)' if new == old else ''}"
        line = f"{name}  {' '.join(new.platforms)}  {state}\n  FROM {new.reference}"
        console.say(line)

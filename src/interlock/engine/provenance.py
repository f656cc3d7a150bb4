"""Labels that say where an image comes from and that its Dockerfile cannot know: the commit, the parent, the builder.

None of them is a part of the content hash: another commit does not build again what it did not change.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from interlock import __version__
from interlock.model import BaseImage

# A file that every clone of the project has: a copy inside another repository has that one's commits, not ours.
TRACKED = "variants/bases.toml"


def labels(root: Path, base: BaseImage) -> dict[str, str]:
    """The OCI image specification's revision, base.name and base.digest, and Interlock's version.

    A base that debootstrap made has no digest in any registry: the local image's id stands for it.
    """
    name, _, digest = base.reference.partition("@")
    commit = revision(root)
    return {
        **({"org.opencontainers.image.revision": commit} if commit else {}),
        "org.opencontainers.image.base.name": name,
        "org.opencontainers.image.base.digest": digest or base.image_id,
        "interlock.version": __version__,
    }


def revision(root: Path) -> str | None:
    """The commit of the project, with `-dirty` if its files are not that commit's; None outside git."""
    commit = _git(root, "rev-parse", "HEAD")
    if commit is None or _git(root, "ls-files", "--error-unmatch", "--", TRACKED) is None:
        return None
    return f"{commit}-dirty" if _git(root, "status", "--porcelain", "--", ".") else commit


def _git(root: Path, *words: str) -> str | None:
    """What git says in this folder; None if it cannot, or is not there."""
    command = ["git", "-C", str(root), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None

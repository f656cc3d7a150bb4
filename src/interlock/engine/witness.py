"""The GIL's witness: put into a container before it starts, and heard after it has run."""

from __future__ import annotations

import io
import tarfile
from importlib.resources import files
from typing import Any

from docker.errors import DockerException

FOLDER = "/interlock-gil"
SOURCE = files("interlock").joinpath("inside/gil_witness.py").read_bytes()


def archive() -> bytes:
    """The witness as the sitecustomize of a folder that every user may write to."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        folder = tarfile.TarInfo(FOLDER.strip("/"))
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(folder)
        entry = tarfile.TarInfo(f"{folder.name}/sitecustomize.py")
        entry.size, entry.mode = len(SOURCE), 0o644
        tar.addfile(entry, io.BytesIO(SOURCE))
    return stream.getvalue()


def heard(container: Any) -> list[str]:
    """The lines that the witness wrote, one for each process."""
    try:
        parts, _ = container.get_archive(FOLDER)
        with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as tar:
            said = [tar.extractfile(entry) for entry in tar if entry.isfile() and entry.name.endswith(".gil")]
            return [stream.read().decode(errors="replace") for stream in said if stream]
    except (DockerException, tarfile.TarError):
        return []


def image_environment(client: Any, image_id: str) -> dict[str, str]:
    """The ENV of an image."""
    settings = client.images.get(image_id).attrs["Config"].get("Env") or []
    return dict(setting.partition("=")[::2] for setting in settings)

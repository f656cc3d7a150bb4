"""Images in an archive, for machines without a registry: what it holds is listed in it, and its SHA-256 names it.

Whoever writes an archive chooses its tags. So one is loaded only if its sum is the named one or a key has signed it,
and brings variants and their bases alone: the images that measure, one of which sees the whole machine, are built
where they run.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Callable, Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.errors import DockerException, ImageNotFound
from requests.exceptions import RequestException

from interlock import untrusted
from interlock.engine.client import FREE_SPACE, no_space
from interlock.engine.registry.keys import PublicKey, SigningKey
from interlock.engine.registry.signatures import decoded
from interlock.errors import EngineError, SignatureError
from interlock.results import store

CHUNK_BYTES = 2**20
# Our own list in the archive, and that of the engine (of Docker and Podman the same).
OWN_LIST, ENGINES_LIST = "interlock.json", "manifest.json"
MOST_SIGNATURE_BYTES = 4096
MOST_LIST_BYTES = 4 * 2**20
SUM = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
# Podman calls what has no registry localhost/...
TAG = re.compile(r"(?:localhost/)?(interlock/(?:python|base):[A-Za-z0-9_][A-Za-z0-9_.-]*)")


def ids_of(client: DockerClient, tags: Sequence[str]) -> dict[str, str]:
    """Return the ids of existing images by their tags."""
    return {tag: str(client.images.get(tag).id) for tag in tags}


def missing(client: DockerClient, ids: Mapping[str, str]) -> list[str]:
    """Return the tags that this engine does not have, or has for another image."""
    return [tag for tag, image_id in ids.items() if not _is_here(client, tag, image_id)]


def _is_here(client: DockerClient, tag: str, image_id: str) -> bool:
    try:
        return bool(client.images.get(tag).id == image_id)
    except ImageNotFound:
        return False


def save(client: DockerClient, tags: Sequence[str], path: Path, on_step: Callable[[str], None] = lambda _: None) -> str:
    """Write all images and their list to one file, each shared layer once, and return the file's SHA-256.

    `on_step` is called with the megabytes so far; an engine says nothing of how many there will be.
    (The SDK itself saves one image at a time.) Raises EngineError, and leaves no file, if the engine fails or the file
    cannot be written.
    """
    address = f"{client.api.base_url}/v{client.api.api_version}/images/get"
    try:
        with store.replacement(path) as file:
            with client.api.get(address, params={"names": list(tags)}, stream=True) as answer:
                answer.raise_for_status()
                for chunk in answer.iter_content(CHUNK_BYTES):
                    file.write(chunk)
                    on_step(f"{file.tell() / 1e6:.0f} MB")
            file.flush()
            _add_list(Path(file.name))
            with Path(file.name).open("rb") as whole:
                return hashlib.file_digest(whole, "sha256").hexdigest()
    except (OSError, RequestException, tarfile.TarError) as error:
        raise EngineError(
            file=str(path),
            found=f"the images cannot be saved: {error}",
            todo="Check the folder's permissions and free space.",
        ) from None


def _add_list(path: Path) -> None:
    """Add our list of the images to an archive that the engine has written."""
    with tarfile.open(path) as tar:
        listed = json.dumps(_images(tar, path)).encode()
    with tarfile.open(path, "a") as tar:
        entry = tarfile.TarInfo(OWN_LIST)
        entry.size = len(listed)
        tar.addfile(entry, io.BytesIO(listed))


def signature_file(path: Path) -> Path:
    """Return where the signature of an archive is: beside it."""
    return path.with_name(f"{path.name}.sig")


def signature_text(sha256: str, key: SigningKey) -> str:
    """Return the signature of a file with this sum as `cosign verify-blob --signature` reads it: Base64 of DER."""
    return f"{base64.b64encode(key.sign_sum(bytes.fromhex(sha256))).decode()}\n"


def load(client: DockerClient, path: Path, sha256: str, key: PublicKey | None = None) -> list[str]:
    """Load the images of an archive and return their tags.

    EngineError or SignatureError, and nothing is loaded, unless the file has this sum, or this key has signed it (both
    if both are given), `save` wrote it and it lists what it has.
    """
    try:
        with path.open("rb") as file:
            tags = _require_listed(file, path, sha256, key)
            file.seek(0)
            images = client.images.load(file)
    except OSError as error:
        raise EngineError(
            file=str(path), found=f"cannot be read: {error.strerror}", todo="Name a file that `interlock save` wrote."
        ) from None
    except DockerException as error:
        todo = FREE_SPACE if no_space(str(error)) else "Make it with `interlock save`."
        raise EngineError(file=str(path), found=f"the engine cannot load it: {error}", todo=todo) from None
    return sorted({tag for image in images for tag in image.tags if _own_name(tag) in tags})


def _require_listed(file: BufferedReader, path: Path, sha256: str, key: PublicKey | None) -> set[str]:
    """Return the tags that an open archive will bring; an error unless it may bring them."""
    wanted = SUM.fullmatch(sha256)
    found = hashlib.file_digest(file, "sha256").hexdigest()
    if key is not None:
        _require_signed(path, found, key)
    if (sha256 or key is None) and (wanted is None or wanted[1] != found):
        raise EngineError(
            file=str(path),
            found=f"its SHA-256 is {found}, not '{sha256}'",
            todo="Copy it again, and give the SHA-256 that `interlock save` printed.",
        )
    file.seek(0)
    try:
        # As engines write it. What is packed may have any size once it is unpacked.
        with tarfile.open(fileobj=file, mode="r:") as tar:
            images = _images(tar, path)
            listed = _read(tar, OWN_LIST)
    except (tarfile.TarError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unwanted(path, f"is not an archive of `interlock save` ({error})") from None
    if listed != images:
        raise _unwanted(path, f"does not contain the images that its {OWN_LIST} lists")
    for tag in images:
        if TAG.fullmatch(tag) is None:
            raise _unwanted(path, f"contains the image {tag}, which is neither a variant nor a base")
    return {_own_name(tag) for tag in images}


def _require_signed(path: Path, sha256: str, key: PublicKey) -> None:
    """Raise SignatureError unless the file beside an archive with this sum has a signature of it by this key."""
    file = signature_file(path)
    try:
        text = untrusted.read_bytes(file, MOST_SIGNATURE_BYTES)
    except FileNotFoundError:
        found = f"it has no signature: {file} is missing"
    except OSError as error:
        found = f"its signature cannot be read: {file}: {error.strerror}"
    else:
        if key.has_signed_sum(bytes.fromhex(sha256), decoded(text.strip())):
            return
        found = f"{file} is not its signature by the key in {key.file}"
    todo = "Copy both files again; sign it where it is written: `interlock save --key FILE`."
    raise SignatureError(file=str(path), found=found, todo=todo)


def _images(tar: tarfile.TarFile, path: Path) -> dict[str, str]:
    """Return the SHA-256 of each image's configuration, which names all its layers, by the tag that it will have."""
    found: dict[str, str] = {}
    for image in _read(tar, ENGINES_LIST):
        config = hashlib.sha256(_bytes(tar, str(image["Config"]))).hexdigest()
        for tag in image["RepoTags"] or [config]:
            if found.setdefault(str(tag), config) != config:
                raise _unwanted(path, f"has two images called {tag}")
    return found


def _read(tar: tarfile.TarFile, name: str) -> Any:
    return untrusted.parse_json(_bytes(tar, name))


def _bytes(tar: tarfile.TarFile, name: str) -> bytes:
    """Return a small file of the archive; ValueError if it is there twice, is no file or too large."""
    named = [entry for entry in tar.getmembers() if entry.name.removeprefix("./") == name]
    file = tar.extractfile(named[0]) if len(named) == 1 and named[0].isreg() else None
    if file is None or named[0].size > MOST_LIST_BYTES:
        raise ValueError(f"{name} is missing, duplicated or too large")
    return file.read()


def _own_name(tag: str) -> str:
    return tag.removeprefix("localhost/")


def _unwanted(path: Path, found: str) -> EngineError:
    return EngineError(file=str(path), found=found, todo="Write it with `interlock save` where the variants are built.")

"""Save images to an archive and load them from one, for machines that share no registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from docker import DockerClient
from docker.errors import DockerException, ImageNotFound
from requests.exceptions import RequestException

from interlock.engine.client import no_space
from interlock.errors import EngineError

CHUNK_BYTES = 2**20


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


def save(client: DockerClient, tags: Sequence[str], path: Path) -> None:
    """Write all images to one file, each shared layer once. (The SDK itself saves one image at a time.)

    Raises EngineError, and leaves no file, if the engine fails or the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}")
    address = f"{client.api.base_url}/v{client.api.api_version}/images/get"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with client.api.get(address, params={"names": list(tags)}, stream=True) as answer, temporary.open("wb") as file:
            answer.raise_for_status()
            for chunk in answer.iter_content(CHUNK_BYTES):
                file.write(chunk)
        temporary.replace(path)
    except (OSError, RequestException) as error:
        raise EngineError(
            file=str(path),
            found=f"the images cannot be saved: {error}",
            todo="Check the folder's permissions and free space.",
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def load(client: DockerClient, path: Path) -> list[str]:
    """Load the images of an archive and return their tags; EngineError if the file is not such an archive."""
    try:
        with path.open("rb") as file:
            images = client.images.load(file)
    except OSError as error:
        raise EngineError(
            file=str(path), found=f"cannot be read: {error.strerror}", todo="Name a file that `interlock save` wrote."
        ) from None
    except DockerException as error:
        todo = "Free space: docker system df." if no_space(str(error)) else "Make it with `interlock save`."
        raise EngineError(file=str(path), found=f"the engine cannot load it: {error}", todo=todo) from None
    return sorted({tag for image in images for tag in image.tags})

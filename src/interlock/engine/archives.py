"""Images as an archive, for machines that share no registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docker.errors import DockerException, ImageNotFound
from requests.exceptions import RequestException

from interlock.engine.client import no_space
from interlock.errors import EngineError

CHUNK_BYTES = 2**20


def ids_of(client: Any, tags: Sequence[str]) -> dict[str, str]:
    """The images' ids by their tags; they are there."""
    return {tag: str(client.images.get(tag).id) for tag in tags}


def missing(client: Any, ids: Mapping[str, str]) -> list[str]:
    """The tags that are not here, or are of other images here."""
    return [tag for tag, image_id in ids.items() if not _is_here(client, tag, image_id)]


def _is_here(client: Any, tag: str, image_id: str) -> bool:
    try:
        return bool(client.images.get(tag).id == image_id)
    except ImageNotFound:
        return False


def save(client: Any, tags: Sequence[str], path: Path) -> None:
    """All of them in one file, with each of their layers once. The SDK saves only one image at a time."""
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
            file=str(path), found=f"the images cannot be saved: {error}", todo="See the engine's log."
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def load(client: Any, path: Path) -> list[str]:
    """The tags of what was in the archive, which the engine has now."""
    try:
        with path.open("rb") as file:
            images = client.images.load(file)
    except OSError as error:
        raise EngineError(file=str(path), found=f"cannot be read: {error.strerror}", todo="Name an archive.") from None
    except DockerException as error:
        todo = "Free some (`docker system df`)." if no_space(str(error)) else "Make it with `interlock save`."
        raise EngineError(file=str(path), found=f"the engine cannot load it: {error}", todo=todo) from None
    return sorted({tag for image in images for tag in image.tags})

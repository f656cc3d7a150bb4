"""Places of sources: their URLs on this machine, and which of them answer for a source now."""

from __future__ import annotations

import base64
import http
import http.client
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from interlock.catalog.sources import Download, host_of
from interlock.engine.build.base import MIRROR as DEBIAN_MIRROR
from interlock.engine.build.sources import kept, mirror_folder, mirror_url
from interlock.engine.ended import run_here

# How long a machine without a network waits for all places together.
ANSWER_S = 4.0
POOL = "pool/"
PAGE = "text/html"
# The status of a server that only sends whole files.
CANNOT_SAY = (http.HTTPStatus.METHOD_NOT_ALLOWED, http.HTTPStatus.NOT_IMPLEMENTED)


def urls_of(download: Download) -> Iterator[str]:
    """Yield where a file can be asked for, the user's own mirror first."""
    folder = mirror_folder()
    if folder is not None and (folder / download.file).is_file():
        yield (folder / download.file).absolute().as_uri()
    if mirror_url():
        yield f"{mirror_url().rstrip('/')}/{download.file}"
    for place in download.places:
        yield from (f"{mirror}/{place}" for mirror in _pool_mirrors()) if place.startswith(POOL) else [place]


def _pool_mirrors() -> list[str]:
    """Return the mirrors that apt asks in a build: the one that bases are made from, or those of this machine."""
    override = os.environ.get(DEBIAN_MIRROR)
    return [override.rstrip("/")] if override else _mirrors_of_apt()


@cache
def _mirrors_of_apt() -> list[str]:
    said = run_here(["apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI)", "Created-By: Packages"])
    return list(dict.fromkeys(line.rstrip("/") for line in said.stdout.split())) if said.ok else []


@dataclass(eq=False)
class Answers:
    """What places say of sources: each is asked once in a run, and all side by side."""

    said: dict[str, str] = field(default_factory=dict)  # why a URL does not have its file; empty if it has

    def lacking(self, sources: Iterable[Download], cache: Path) -> dict[str, str]:
        """Return, by SHA-256, why a source cannot be had now; an empty text if it is here or a place has it."""
        urls = {
            download.sha256: [] if kept(download, cache).is_file() else list(urls_of(download)) for download in sources
        }
        self._ask({url for known_urls in urls.values() for url in known_urls} - self.said.keys())
        return {sum_: self._words(known_urls) for sum_, known_urls in urls.items()}

    def _words(self, urls: Sequence[str]) -> str:
        if not all(self.said[url] for url in urls):
            return ""
        return "; ".join(dict.fromkeys(f"{host_of(url)}: {self.said[url]}" for url in urls))

    def _ask(self, urls: Iterable[str]) -> None:
        answers: dict[str, str] = {}

        def ask(url: str) -> None:
            answers[url] = why_not(url)

        # The limit of a socket does not hold for a name server that does not answer, so nobody waits for such a thread.
        asking = {url: threading.Thread(target=ask, args=(url,), daemon=True) for url in urls}
        for thread in asking.values():
            thread.start()
        end = time.monotonic() + ANSWER_S
        for thread in asking.values():
            thread.join(max(0.0, end - time.monotonic()))
        self.said |= {url: answers.get(url, f"no answer within {ANSWER_S:.0f} s") for url in asking}


def why_not(url: str) -> str:
    """Return why a place does not have a file; an empty text if it has."""
    try:
        # urllib takes a user's name and password for a part of the host.
        parts = urlsplit(url)
        user, _, host = parts.netloc.rpartition("@")
        asked = urllib.request.Request(parts._replace(netloc=host).geturl(), method="HEAD")  # noqa: S310
        if user:
            name, _, password = map(unquote, user.partition(":"))
            words = base64.b64encode(f"{name}:{password}".encode()).decode()
            asked.add_unredirected_header("Authorization", f"Basic {words}")
        with urllib.request.urlopen(asked, timeout=ANSWER_S) as answer:  # noqa: S310
            # Some mirrors, and networks that ask for a login, send a page for 'not found'; no source is a page.
            return "it has a page in place of the file" if answer.headers.get_content_type() == PAGE else ""
    except urllib.error.HTTPError as error:
        return "" if error.code in CANNOT_SAY else f"{error.code} {error.reason}"
    except urllib.error.URLError as error:
        return str(getattr(error.reason, "strerror", None) or error.reason)
    except (OSError, ValueError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__

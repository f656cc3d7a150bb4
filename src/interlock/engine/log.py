"""What a build's log says: its steps, and, when it failed, why. Pure."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from interlock.engine.client import no_space
from interlock.errors import BuildError, EngineError, InterlockError, SourceUnavailableError
from interlock.model import Variant

MIRROR = "INTERLOCK_SOURCE_MIRROR"
# Exit codes of fetch.sh: the source is nowhere; what came has another sum; its signature is by another key.
UNAVAILABLE, WRONG_SUM, WRONG_SIGNATURE = 69, 65, 66
STEP = re.compile(r"^interlock: step (.+)$", re.MULTILINE)
TRIED = re.compile(r"^interlock: tried (\S+): (?:curl: \(\d+\) )?(.+)$", re.MULTILINE)
POOL = "/pool/"
EXIT_CODE = "interlock: exit code {}"


def build_failure(log: str, variant: Variant, path: str) -> InterlockError:
    """Why the build of a variant failed; `path` is where its log is kept."""
    file = f"variants/{variant.name}.toml"
    places = dict.fromkeys(f"{_host(url)}: {said}" for url, said in TRIED.findall(log))
    tried = "; ".join(places) or "no place could be asked"
    if no_space(log):
        return engine_failure(log, variant.name, path)
    if EXIT_CODE.format(UNAVAILABLE) in log:
        return SourceUnavailableError(file=file, key="places", found=tried, todo=f"Set {MIRROR}.")
    if EXIT_CODE.format(WRONG_SUM) in log:
        return BuildError(
            file=file,
            key="sha256",
            found=f"no place has the source with this sum. Tried: {tried}",
            todo=f"Correct the sum or the places, or put the right file into a folder and set {MIRROR} to it.",
        )
    if EXIT_CODE.format(WRONG_SIGNATURE) in log:
        return BuildError(
            file=file,
            key="signature",
            found=f"the source has the declared sum, but its signature does not hold: {tried}",
            todo="Find out who made the signature before you use the source; correct the key or the sum.",
        )
    return engine_failure(log, variant.name, path)


def _host(url: str) -> str:
    """The host of a URL; what has none (a file) as it stands. A mirror of Debian's archive is whichever apt has."""
    return "apt's mirror" if POOL in url else urlsplit(url).netloc or url


def engine_failure(log: str, what: str, path: str) -> InterlockError:
    """Why any build failed: no room, or what its log says last."""
    if no_space(log):
        return EngineError(
            found=f"building {what}: no space left on the engine's disk", todo="Free some (`docker system df`)."
        )
    last = [line for line in log.splitlines() if line.strip() and not line.startswith("interlock: exit")][-4:]
    return BuildError(file=path, found=f"building {what} failed: {' / '.join(last)}", todo="The log has the rest.")

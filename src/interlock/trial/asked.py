"""What a trial's options mean: where a service answers, and which load is put on it. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from interlock.errors import UsageError
from interlock.model import SupportPhase, Variant

URL = "{url}"
WRK = "wrk"
LATENCY = ("-L", "--latency")
ADDRESS = re.compile(r"^(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)?:(?P<port>[0-9]{1,5})(?P<path>/\S*)?$")
LOOPBACK = ("localhost", "127.0.0.1")
EXPOSED_TCP = re.compile(r"^([0-9]+)/tcp$")
NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
# What a trial tries unless it is told: what upstream still mends, as released and without the GIL.
USUAL_FAMILIES = ("release-lines", "free-threading")
USUAL_PHASES = (SupportPhase.BUGFIX, SupportPhase.SECURITY)


@dataclass(frozen=True)
class Address:
    """Where a service answers; `host` is the name that requests carry, empty for its address.

    A service of which nobody said what is healthy is so once it answers at all.
    """

    port: int
    path: str = "/"
    host: str = ""
    any_answer: bool = False

    def base(self, address: str) -> str:
        """What {url} stands for; `address` is the container's."""
        return f"http://{self.host or address}:{self.port}"

    def url(self, address: str) -> str:
        """What is asked for health."""
        return self.base(address) + self.path


def parse_address(text: str) -> Address:
    """[HOST]:PORT[/PATH] as --http has it; UsageError says what is wrong with it."""
    found = ADDRESS.match(text)
    if found is None or not 0 < int(found["port"]) < 65536:
        raise UsageError(
            key="--http", found=f"'{text}' is no place to ask", todo="Write it as :8000/health (port and path)."
        )
    if found["host"] in LOOPBACK:
        raise UsageError(
            key="--http",
            found=f"'{found['host']}' is whoever asks, and the service runs in a container of its own",
            todo=f"Leave it out, as in :{found['port']}{found['path'] or '/'}.",
        )
    return Address(int(found["port"]), found["path"] or "/", found["host"] or "")


def exposed_address(ports: Sequence[str]) -> Address:
    """The one TCP port that an image EXPOSEs; UsageError if it is not one."""
    found = [int(match[1]) for port in ports if (match := EXPOSED_TCP.match(port))]
    if len(found) == 1:
        return Address(found[0], any_answer=True)
    what = f"EXPOSEs {len(found)} TCP ports" if found else "EXPOSEs no TCP port"
    raise UsageError(
        key="--http", found=f"is missing, and the image {what}", todo="Say where the service answers: --http :8000/."
    )


def load_words(load: str) -> list[str]:
    """The load's command as words; wrk is asked for its latencies. UsageError if it is no command or knows no {url}."""
    try:
        words = shlex.split(load)
    except ValueError as error:
        raise UsageError(key="--load", found=f"'{load}' is no command: {error}", todo="Close the quotes.") from None
    if URL not in load:
        raise UsageError(
            key="--load",
            found=f"'{load}' does not say where the load goes",
            todo=f"Write {URL} where the service's address belongs: wrk -t1 -c16 -d3s {URL}/path.",
        )
    if is_wrk(words) and not any(word in LATENCY for word in words):
        words.insert(1, LATENCY[1])
    return words


def with_url(words: Sequence[str], base: str) -> list[str]:
    return [word.replace(URL, base) for word in words]


def is_wrk(words: Sequence[str]) -> bool:
    """Whether the command prints what `wrk.parse` reads."""
    return PurePosixPath(words[0]).name == WRK if words else False


def settings_of(option: str, settings: Sequence[str], here: Mapping[str, str]) -> dict[str, str]:
    """K=V, or K alone for the value that it has `here`; UsageError for what is neither."""
    found = {}
    for setting in settings:
        name, given, value = setting.partition("=")
        if not NAME.match(name):
            raise UsageError(key=option, found=f"'{setting}' has no name", todo=f"Write {option} NAME=VALUE.")
        if not given and name not in here:
            raise UsageError(
                key=option, found=f"{name} has no value here", todo=f"Write {option} {name}=VALUE, or export it."
            )
        found[name] = value if given else here[name]
    return found


def cpus_of(count: int, service: int | None) -> tuple[str, str]:
    """The engine's words for the CPUs of the service and of the load, of `count` in all; empty for all of them.

    The load has the first, the service as many of the last as `service` says, all others by default: only where it
    has all do they share one.
    """
    if count < 2 and service in {None, 1}:
        return "", ""
    wanted = count - 1 if service is None else service
    if not 1 <= wanted <= count:
        raise UsageError(key="--cpus", found=f"{wanted} of the engine's {count}", todo=f"Take 1 to {count}.")
    first = count - wanted
    return (str(first) if wanted == 1 else f"{first}-{count - 1}"), "0"


def usual_variants(variants: Mapping[str, Variant]) -> list[str]:
    """The names of those that a trial tries unless it is told which."""
    return [
        name
        for name, variant in variants.items()
        if variant.family in USUAL_FAMILIES and variant.support.phase in USUAL_PHASES
    ]

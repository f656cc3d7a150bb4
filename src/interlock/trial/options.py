"""Options of a trial as typed values: the address of the service, the words of the load, its CPUs. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from interlock.analysis.trials import Condition, FailOn, Figure
from interlock.catalog.services import ServiceAddress, cpus_in
from interlock.catalog.variants import SupportPhase, Variant
from interlock.errors import UsageError
from interlock.measure.kinds.users_service import URL, is_wrk
from interlock.trial.workloads import ServicePlace

LATENCY = ("-L", "--latency")
ADDRESS = re.compile(r"^(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)?:(?P<port>[0-9]{1,5})(?P<path>/\S*)?$")
# Never the service's own address, which it gets when it starts: these mean whoever asks, or another service.
NO_NAME = re.compile(r"localhost|[0-9.]+", re.IGNORECASE)
EXPOSED_TCP = re.compile(r"^([0-9]{1,5})/tcp$")
NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
# What a trial tries by default: releases that still get fixes, with and without the GIL.
USUAL_FAMILIES = ("release-lines", "free-threading")
SWEPT = (1, 2, 4)
CONDITION = re.compile(
    r"^(?:(?P<fault>slower|undecided|failed)"
    r"|(?P<way>more|less)-(?P<figure>[a-z0-9]+)=(?P<share>[0-9]{1,4}(?:\.[0-9]+)?)%)$"
)
USUAL_PHASES = (SupportPhase.BUGFIX, SupportPhase.SECURITY)


def parse_address(text: str) -> ServiceAddress:
    """Parse [HOST]:PORT[/PATH], the value of --http; UsageError if it is something else."""
    match = ADDRESS.match(text)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise UsageError(
            key="--http", found=f"'{text}' is not [HOST]:PORT[/PATH]", todo="Give port and path: --http :8000/health."
        )
    if match["host"] and NO_NAME.fullmatch(match["host"]):
        raise UsageError(
            key="--http",
            found=f"'{match['host']}' is no name of the service, which runs in a container of its own",
            todo=f"Leave the host out: --http :{match['port']}{match['path'] or '/'}.",
        )
    return ServiceAddress(port=int(match["port"]), path=match["path"] or "/", host=match["host"] or "")


def exposed_address(ports: Sequence[str]) -> ServiceAddress:
    """Return the address of the only TCP port that an image EXPOSEs; UsageError if there is none or more than one."""
    exposed = [int(match[1]) for port in ports if (match := EXPOSED_TCP.match(port))]
    if len(exposed) == 1:
        return ServiceAddress(port=exposed[0], any_answer=True)
    what = f"EXPOSEs {len(exposed)} TCP ports" if exposed else "EXPOSEs no TCP port"
    raise UsageError(
        key="--http",
        found=f"missing option --http, and the image {what}",
        todo="Give port and path: --http :8000/health.",
    )


def load_words(load: str) -> list[str]:
    """Split the load's command into words and add --latency to wrk; UsageError if quotes or {url} are missing."""
    try:
        words = shlex.split(load)
    except ValueError as error:
        raise UsageError(
            key="--load", found=f"'{load}' cannot be split into words: {error}", todo="Close the quotes."
        ) from None
    if URL not in load:
        raise UsageError(
            key="--load",
            found=f"'{load}' has no {URL}",
            todo=f"Write {URL} in place of the service's address: wrk -t1 -c16 -d3s {URL}/path.",
        )
    if is_wrk(words) and not any(word in LATENCY for word in words):
        words.insert(1, LATENCY[1])
    return words


def settings_of(option: str, settings: Sequence[str], here: Mapping[str, str]) -> dict[str, str]:
    """Return settings NAME=VALUE by name; a bare NAME has its value in `here`. UsageError for anything else."""
    values = {}
    for setting in settings:
        name, given, value = setting.partition("=")
        if not NAME.match(name):
            raise UsageError(
                key=option, found=f"'{setting}' is not NAME=VALUE or NAME", todo=f"Write {option} NAME=VALUE."
            )
        if not given and name not in here:
            raise UsageError(
                key=option,
                found=f"{name} is not set in this shell",
                todo=f"Write {option} {name}=VALUE or export it.",
            )
        values[name] = value if given else here[name]
    return values


def conditions_of(text: str) -> list[Condition]:
    """Parse --fail-on: words, more-FIGURE=N% and less-FIGURE=N%, separated by | or commas; else UsageError."""
    return [_condition(word.strip()) for word in re.split(r"[|,]", text)]


def _condition(word: str) -> Condition:
    match = CONDITION.match(word)
    figure = next((figure for figure in Figure if match and figure == match["figure"]), None)
    if match and match["fault"]:
        return Condition(FailOn(match["fault"]))
    if match and figure and match["way"] == figure.worse:
        return Condition(FailOn.WORSE, figure, float(match["share"]) / 100)
    problem = f"'{word}' is no condition"
    if match and figure:
        problem = f"'{word}' is no fault: {match['way']} {figure} is better"
    more, less = (", ".join(figure for figure in Figure if figure.worse == way) for way in ("more", "less"))
    faults = ", ".join(fault for fault in FailOn if fault is not FailOn.WORSE)
    todo = f"Give {faults}, more-FIGURE=N% of {more}, or less-FIGURE=N% of {less}"
    raise UsageError(key="--fail-on", found=problem, todo=f"{todo}: --fail-on 'slower|more-memory=10%'.")


def places_of(count: int, service: int | None, *, sweep: bool) -> list[ServicePlace]:
    """Return the service's CPUs, out of the engine's `count`; in a sweep 1, 2 and 4 of them, if it has so many."""
    if not sweep:
        cpus = cpus_of(count, service)
        return [ServicePlace(cpus, cpus_in(cpus, count))]
    return [ServicePlace(cpus_of(count, cpus), cpus, f"-{cpus}cpu") for cpus in SWEPT if cpus <= count]


def cpus_of(count: int, service: int | None) -> str:
    """Return the CPUs of the service in the engine's syntax, as in 1-3; empty means all of them.

    Of `count` CPUs the load has the first and the service the last `service` ones (default: all but the first). They
    share a CPU only if the service has all.
    """
    if count < 2 and service in {None, 1}:
        return ""
    wanted = count - 1 if service is None else service
    if not 1 <= wanted <= count:
        raise UsageError(
            key="--cpus", found=f"{wanted} CPUs, and the engine has {count}", todo=f"Give 1 to {count}: --cpus {count}."
        )
    first = count - wanted
    return str(first) if wanted == 1 else f"{first}-{count - 1}"


def usual_variants(variants: Mapping[str, Variant]) -> list[str]:
    """Return the names of the variants that a trial tries by default."""
    return [
        name
        for name, variant in variants.items()
        if variant.family in USUAL_FAMILIES and variant.support.phase in USUAL_PHASES
    ]

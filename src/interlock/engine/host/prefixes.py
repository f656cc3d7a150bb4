"""Builds variants into prefixes below the cache, by the very build.sh and finish.sh that an image's build runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from interlock.engine.context import content_hash, read_context
from interlock.engine.downloads import local_files, mirror_url
from interlock.engine.host.toolchain import identity
from interlock.engine.log import EXIT_CODE, MIRROR, STEP, build_failure
from interlock.engine.prefix import find_prefix
from interlock.engine.proof import QUESTION, parse_facts, require_proof
from interlock.errors import BuildError, InterlockError, SourceUnavailableError
from interlock.model import Built, Catalog, Facts, Outcome, SourceKind, State, Variant

# Written last: a prefix without it was left half built.
DONE = "interlock-facts.json"
LOCALE = "C.UTF-8"
ANSWER_S = 60
# Marks `interlock build` and all that it starts as an experiment's, by whose name `interlock clean` ends them.
EXPERIMENT = "INTERLOCK_EXPERIMENT"
NETWORK = re.compile(r"_proxy$|CERT|^PIP_|^HOME$|^XDG_", re.IGNORECASE)

Say = Callable[[str, str], None]


@dataclass(frozen=True)
class Place:
    """Where builds read from and go to."""

    root: Path
    cache: Path
    profile: str
    force: bool = False


@dataclass(frozen=True)
class Plan:
    """A prefix to build: its variant, the build's files, and where it goes, which names everything that went in."""

    variant: Variant
    files: dict[str, bytes]
    content_hash: str
    prefix: Path


def build(known: Catalog, names: list[str], place: Place, say: Say) -> list[Built]:
    """Every named variant in a prefix of its own, one after the other; failures and missing sources are outcomes."""
    return [_build_or_end(known.variants[name], place, say) for name in names]


def look_up(known: Catalog, names: list[str], place: Place) -> list[Built]:
    """The prefixes that the variants have now; of the others why there is none. Nothing is built."""
    return [_found_or_end(known.variants[name], place) for name in names]


def expect(known: Catalog, names: list[str], place: Place) -> list[Built]:
    """What a machine that is not this one can be expected to build; the hash is of a build's files alone."""
    return [_expected(known.variants[name], place) for name in names]


def environment_of(prefix: Path) -> dict[str, str]:
    """What every process of a prefix starts with: nothing of the user's own environment reaches it."""
    return {"PATH": f"{prefix}/bin:/usr/local/bin:/usr/bin:/bin", "LANG": LOCALE}


def _build_or_end(variant: Variant, place: Place, say: Say) -> Built:
    started = time.monotonic()
    say(variant.name, "starting")
    try:
        result = _build(variant, place, say)
    except SourceUnavailableError as error:
        result = _ended(variant, place, State.UNAVAILABLE, error.found)
    except InterlockError as error:
        result = _ended(variant, place, State.FAILED, str(error))
    say(variant.name, "unchanged" if result.reused else result.outcome.state.value)
    return result if result.reused else result.model_copy(update={"duration_s": time.monotonic() - started})


def _found_or_end(variant: Variant, place: Place) -> Built:
    try:
        if variant.kind is SourceKind.PREFIX:
            return _installed(variant, place)
        plan = make_plan(variant, place)
    except InterlockError as error:
        return _ended(variant, place, State.UNAVAILABLE, error.found)
    if (plan.prefix / DONE).is_file():
        return _built(plan, place, reused=True)
    return _ended(variant, place, State.UNAVAILABLE, "no prefix of it as its file is now")


def _expected(variant: Variant, place: Place) -> Built:
    if place.profile not in variant.profiles:
        return _without_profile(variant, place)
    try:
        files = {} if variant.kind is SourceKind.PREFIX else _files(variant, place)
    except SourceUnavailableError as error:
        return _ended(variant, place, State.UNAVAILABLE, error.found)
    content = content_hash(files, "", place.profile) if files else ""
    return Built(variant=variant.name, profile=place.profile, outcome=Outcome(state=State.OK), content_hash=content)


def _without_profile(variant: Variant, place: Place) -> Built:
    return _ended(variant, place, State.UNSUPPORTED, f"no profile '{place.profile}'")


def _build(variant: Variant, place: Place, say: Say) -> Built:
    if place.profile not in variant.profiles:
        return _without_profile(variant, place)
    if variant.kind is SourceKind.PREFIX:
        return _installed(variant, place)
    plan = make_plan(variant, place)
    if (plan.prefix / DONE).is_file() and not place.force:
        return _built(plan, place, reused=True)
    _make(plan, place, say)
    return _built(plan, place, reused=False)


def make_plan(variant: Variant, place: Place) -> Plan:
    """What would be built now; SourceUnavailableError of a kind of source that only a container engine can have."""
    files = _files(variant, place)
    identified = content_hash(files, identity(), place.profile)
    # The interpreter knows its prefix by heart: what is built elsewhere cannot be moved here.
    return Plan(variant, files, identified, place.cache / "prefixes" / f"{variant.name}-{identified[:12]}")


def _files(variant: Variant, place: Place) -> dict[str, bytes]:
    """All that its build reads but the sources."""
    if variant.kind is not SourceKind.SOURCE:
        raise SourceUnavailableError(
            file=f"variants/{variant.name}.toml",
            key=variant.kind.value,
            found=f"a variant of kind '{variant.kind.value}' needs a container engine",
            todo="Run with --engine docker or podman.",
        )
    files = read_context(place.root / "dockerfiles" / variant.name)
    if "build.sh" not in files:
        raise BuildError(
            file=f"dockerfiles/{variant.name}/build.sh", found="the file is missing", todo="Run `interlock render`."
        )
    files.pop("Dockerfile", None)
    return files


def _make(plan: Plan, place: Place, say: Say) -> None:
    """The prefix, whole and proved, or none."""
    work = plan.prefix.with_name(f"{plan.prefix.name}.build")
    for folder in (plan.prefix, work):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        _write(plan.files | local_files(plan.variant, place.cache), work / "files")
        _run_scripts(plan, place, work, say)
        say(plan.variant.name, "proving")
        facts = ask_facts(plan.prefix)
        require_proof(plan.variant, facts)
        (plan.prefix / DONE).write_text(facts.model_dump_json() + "\n", encoding="utf-8")
    except BaseException:
        shutil.rmtree(plan.prefix, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write(files: dict[str, bytes], folder: Path) -> None:
    """As the Dockerfile copies them: what lies in a folder of the context goes beside the scripts."""
    folder.mkdir(parents=True)
    for path, data in files.items():
        (folder / Path(path).name).write_bytes(data)


def _run_scripts(plan: Plan, place: Place, work: Path, say: Say) -> None:
    log: list[str] = []
    settings = {
        "PREFIX": str(plan.prefix),
        "BUILD_DIR": str(work / "build"),
        "PROFILE": place.profile,
        "JOBS": str(os.cpu_count() or 1),
        MIRROR: mirror_url(),
    }
    for script in ("build.sh", "finish.sh"):
        code = 0
        for line in _lines(
            ["sh", str(work / "files" / script)], network_settings() | _build_environment() | settings, log
        ):
            for step in STEP.findall(line):
                say(plan.variant.name, step)
        code = int(log.pop())
        if code != 0:
            log.append(f"{EXIT_CODE.format(code)}\n")
            raise build_failure("".join(log), plan.variant, str(_keep_log(plan, place, log)))
    _keep_log(plan, place, log)


def network_settings() -> dict[str, str]:
    """What of the user's own settings a build or pip needs to reach the network: proxies, certificates, pip's index."""
    return {name: value for name, value in os.environ.items() if NETWORK.search(name)}


def _build_environment() -> dict[str, str]:
    mark = {name: os.environ[name] for name in (EXPERIMENT,) if name in os.environ}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": LOCALE, **mark}


def _lines(argv: list[str], environment: dict[str, str], log: list[str]) -> Iterator[str]:
    """Each line that the script prints, kept in the log; the exit code is the log's last entry."""
    with subprocess.Popen(
        argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None  # noqa: S101  for the type checker: it is a pipe
        for line in process.stdout:
            log.append(line)
            yield line
    log.append(str(process.returncode))


def _keep_log(plan: Plan, place: Place, log: list[str]) -> Path:
    path = place.cache / "logs" / f"{plan.variant.name}-{place.profile}-host.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(log), encoding="utf-8")
    return path


def ask_facts(prefix: Path) -> Facts:
    """What the interpreter of the prefix says of itself; BuildError if it does not even start."""
    try:
        ended = subprocess.run(
            [prefix / "bin" / "python", "-c", QUESTION],
            env=environment_of(prefix),
            capture_output=True,
            text=True,
            check=True,
            timeout=ANSWER_S,
        )
        return parse_facts(ended.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise BuildError(
            file=str(prefix), found=f"the interpreter does not answer: {said.strip()}", todo="Look at its build's log."
        ) from None


def _installed(variant: Variant, place: Place) -> Built:
    """A prefix of this machine, used where it is."""
    assert variant.prefix is not None  # noqa: S101  the caller looked at the kind
    prefix = find_prefix(variant, variant.prefix)
    require_proof(variant, ask_facts(prefix))
    return _of(variant, place, prefix, content="", reused=True)


def _built(plan: Plan, place: Place, reused: bool) -> Built:
    return _of(plan.variant, place, plan.prefix, plan.content_hash, reused)


def _of(variant: Variant, place: Place, prefix: Path, content: str, reused: bool) -> Built:
    return Built(
        variant=variant.name,
        profile=place.profile,
        outcome=Outcome(state=State.OK),
        image_id=str(prefix),
        content_hash=content,
        size_bytes=sum(path.lstat().st_size for path in prefix.rglob("*")),
        reused=reused,
    )


def _ended(variant: Variant, place: Place, state: State, reason: str) -> Built:
    return Built(variant=variant.name, profile=place.profile, outcome=Outcome(state=state, reason=reason))

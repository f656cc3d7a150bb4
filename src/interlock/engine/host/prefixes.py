"""Variants as prefixes below the cache: built by the very scripts that an image's build runs."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from interlock.catalog import project, rendering
from interlock.catalog.project import Catalog, FileTexts
from interlock.catalog.variants import Prefix, SourceKind, Variant
from interlock.engine.build.builds import Builder, ended
from interlock.engine.build.image import (
    QUESTION,
    BuildPlan,
    build_failure,
    content_hash,
    keep_log,
    make_jobs,
    no_answer,
    parse_facts,
    require_proof,
)
from interlock.engine.build.one_build import EXIT_CODE, follow, on_line
from interlock.engine.build.sources import MIRROR, local_files, mirror_url
from interlock.engine.client import no_space
from interlock.engine.ended import run_here
from interlock.engine.host import existing, toolchain
from interlock.engine.host.account import MYSELF, Account
from interlock.engine.host.toolchain import identity
from interlock.engine.protocol import BuildOptions
from interlock.errors import EngineError, SourceUnavailableError
from interlock.results.experiments import Built, Facts, Outcome, State
from interlock.results.files import take_lock

# Written last: a prefix without it was left half built.
DONE = "interlock-facts.json"
LOCALE = "C.UTF-8"
# In the order in which they run: the first one for what others built, the rest for a source.
SCRIPTS = ("unpack.sh", "build.sh", "finish.sh")
ANSWER_S = 60
# Marks a command and all that it starts with the name of its experiment, by which `interlock clean` ends them.
EXPERIMENT = "INTERLOCK_EXPERIMENT"
NETWORK = re.compile(r"_proxy$|CERT|CA_BUNDLE|^PIP_|^HOME$|^XDG_", re.IGNORECASE)
# Undoes the user's settings for their own installations, with which pip refuses to install into a prefix.
OWN_INSTALLATIONS = {"PIP_REQUIRE_VIRTUALENV": "0", "PIP_USER": "0"}
# Paths below a home.
PIP_SETTINGS = (".config/pip/pip.conf", ".pip/pip.conf")


def environment_of(prefix: Path) -> dict[str, str]:
    """Return the environment of a prefix's processes; nothing of the user's own reaches them."""
    return {"PATH": f"{prefix}/bin:/usr/local/bin:/usr/bin:/bin", "LANG": LOCALE}


def symbols_of(prefix: Path) -> Path | None:
    """Return the folder with a prefix's names of functions, by build id; None if the prefix was not built here."""
    folder = _symbols(prefix) / "usr/lib/debug"
    return folder if folder.is_dir() else None


def _symbols(prefix: Path) -> Path:
    """Return where a build puts names of functions: beside the prefixes, because files in a prefix are stripped."""
    return prefix.parent.parent / "symbols" / prefix.name


@dataclass(frozen=True, kw_only=True)
class PrefixPlan(BuildPlan):
    """A prefix to build, or one of this machine to use as it is; a built one's path has a hash of all that went in."""

    prefix: Path


@dataclass(frozen=True)
class PrefixBuilder(Builder[PrefixPlan]):
    """Builds variants into prefixes below the cache, one after the other."""

    account: Account = MYSELF

    def plan(self, variant: Variant) -> PrefixPlan:
        """Return what would be built now; SourceUnavailableError for a kind of source that only containers have."""
        if variant.prefix is not None:
            files = _context(variant, self.known, self.texts)
            prefix = self._place(variant, variant.prefix, content_hash(files, ""))
            return PrefixPlan(variant=variant, files=files, content_hash="", prefix=prefix)
        files = build_files(variant, self.known, self.texts)
        lacking = toolchain.missing(toolchain.programs(variant.compiler))
        if lacking:
            raise SourceUnavailableError(
                file=variant.file,
                key="interpreter",
                found=toolchain.cannot_compile(lacking),
                todo=f"{toolchain.install_command(lacking)}.",
            )
        identified = content_hash(files, identity(variant.compiler))
        # Its prefix is compiled into an interpreter: it cannot be built elsewhere and moved here.
        prefix = self.options.cache / "prefixes" / f"{variant.name}-{identified[:12]}"
        trains = self.lacks_profile(variant, lambda each: each.trained_with == toolchain.compiler(variant.compiler))
        return PrefixPlan(variant=variant, files=files, content_hash=identified, prefix=prefix, trains=trains)

    def _place(self, variant: Variant, declared: Prefix, unpacked_by: str) -> Path:
        """Return where an interpreter that others built is used from, or will be once its archive is fetched."""
        place = existing.place_of(declared, self.account)
        if place is not None and not existing.needs_links(declared, place):
            return place
        if place is None and existing.archive_of(declared) is None:
            raise existing.not_here(variant, declared)
        identified = unpacked_by[:12] if place is None else f"{place}"[1:].replace("/", "-")
        return self.options.cache / "prefixes" / f"{variant.name}-{identified}"

    def find(self, plan: PrefixPlan) -> Built | None:
        """Return the prefix of this plan if it is complete."""
        return self._installed(plan) or (_describe(plan, reused=True) if (plan.prefix / DONE).is_file() else None)

    def make(self, plan: PrefixPlan) -> Built:
        """Build and prove a prefix, or fetch one that others built; what others installed stays as it is."""
        there = self._installed(plan)
        if there is not None:
            return there
        with self._alone(plan):
            # Another process may have built it meanwhile.
            there = None if self.options.rebuild else self.find(plan)
            if there is None:
                self._make(plan)
        return there or _describe(plan, reused=False)

    def workers(self, _: Sequence[PrefixPlan]) -> int:
        """Return 1: each build uses all cores, and Ctrl-C has to end its scripts."""
        return 1

    def _installed(self, plan: PrefixPlan) -> Built | None:
        """Return an interpreter that others installed on this machine, proved and used where it is, or None."""
        declared = plan.variant.prefix
        place = existing.place_of(declared, self.account) if declared else None
        if declared is None or place is None:
            return None
        interpreter = place / "bin" / declared.python
        if place != plan.prefix:
            existing.link(plan.prefix, interpreter)
        require_proof(plan.variant, ask_facts(plan.prefix, account=self.account))
        return _describe(plan, reused=True)

    @contextmanager
    def _alone(self, plan: PrefixPlan) -> Iterator[None]:
        """Hold the lock of all prefixes, which ends with the process: two builds would remove each other's files."""
        plan.prefix.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(plan.prefix.parent, os.O_RDONLY)
        try:
            if not take_lock(folder):
                self.on_step(plan.variant.name, "waiting for another build on this machine")
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _make(self, plan: PrefixPlan) -> None:
        """Build and prove a prefix; if that fails, nothing is left of it."""
        work = plan.prefix.with_name(f"{plan.prefix.name}.build")
        for folder in (plan.prefix, work, _symbols(plan.prefix)):
            shutil.rmtree(folder, ignore_errors=True)
        try:
            _write({**plan.files, **local_files(plan.variant, self.options.cache)}, work / "files")
            for folder in (plan.prefix, work / "build", _symbols(plan.prefix)):
                folder.mkdir(parents=True)
                self.account.give(folder)
            self._run_scripts(plan, work)
            for folder in (plan.prefix, _symbols(plan.prefix)):
                self.account.take_back(folder)
            self.on_step(plan.variant.name, "proving")
            facts = ask_facts(plan.prefix, account=self.account)
            require_proof(plan.variant, facts)
            (plan.prefix / DONE).unlink(missing_ok=True)  # root must not follow a link that a build has left
            (plan.prefix / DONE).write_text(facts.model_dump_json() + "\n", encoding="utf-8")
        except BaseException:
            for folder in (plan.prefix, _symbols(plan.prefix)):
                shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _run_scripts(self, plan: PrefixPlan, work: Path) -> None:
        log: list[str] = []
        name, cache = plan.variant.name, self.options.cache
        settings = {
            **{name: os.environ[name] for name in (EXPERIMENT,) if name in os.environ},
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": LOCALE,
            "PREFIX": str(plan.prefix),
            "SYMBOLS": str(_symbols(plan.prefix)),
            "BUILD_DIR": str(work / "build"),
            "TRAIN": plan.training or "",
            "JOBS": str(make_jobs()),
            MIRROR: mirror_url(),
        }
        environment = network_settings(cache, self.account) | settings
        for script in (name for name in SCRIPTS if name in plan.files):
            words = self.account.command(["sh", str(work / "files" / script)])
            read = on_line(partial(self.on_step, name))
            code = follow(words, log, read, env=environment, cwd=work, start_new_session=True)
            if code != 0:
                log.append(f"{EXIT_CODE.format(code)}\n")
                path = keep_log(cache, f"{name}-host", log)
                if no_space("".join(log)):
                    full = f"building {name}: no space left on the disk of {cache}"
                    raise EngineError(found=full, todo=f"Free space there: `df -h {cache}` shows how much is left.")
                raise build_failure("".join(log), plan.variant, str(path))
        keep_log(cache, f"{name}-host", log)


def expect(known: Catalog, names: Sequence[str], options: BuildOptions) -> list[Built]:
    """Return what another machine can be expected to build; the content hash covers only the build's files."""
    texts = project.read_texts(options.root)
    newest = [known.variants[name].at(known.variants[name].version) for name in names]
    return [_expected(known, variant, texts) for variant in newest]


def _expected(known: Catalog, variant: Variant, texts: FileTexts) -> Built:
    try:
        files = {} if variant.prefix is not None else build_files(variant, known, texts)
    except SourceUnavailableError as error:
        return ended(variant, State.UNAVAILABLE, error.found)
    content = content_hash(files, "") if files else ""
    return Built(variant=variant.name, outcome=Outcome(state=State.OK), content_hash=content)


def build_files(variant: Variant, known: Catalog, texts: FileTexts) -> dict[str, bytes]:
    """Return all files that a build on this machine reads, except the sources."""
    if variant.kind is not SourceKind.SOURCE:
        raise SourceUnavailableError(
            file=variant.file,
            key=variant.kind.value,
            found=f"a variant of kind '{variant.kind.value}' needs a container engine",
            todo="Run with --engine docker or podman.",
        )
    return _context(variant, known, texts)


def _context(variant: Variant, known: Catalog, texts: FileTexts) -> dict[str, bytes]:
    files = rendering.context(variant, known, texts)
    files.pop("Dockerfile")
    return files


def _write(files: dict[str, bytes], folder: Path) -> None:
    """Write files where the Dockerfile copies them: those in folders of the context go next to the scripts."""
    folder.mkdir(parents=True)
    for path, data in files.items():
        (folder / Path(path).name).write_bytes(data)


def network_settings(cache: Path, account: Account) -> dict[str, str]:
    """Return the user's settings that a build or pip needs to reach the network: proxies, certificates, pip's index.

    If builds run as another user, that user has its own home with a copy of pip's settings.
    """
    kept = {name: value for name, value in os.environ.items() if NETWORK.search(name)} | OWN_INSTALLATIONS
    if not account.name:
        return kept
    home = cache / "home"
    for folder in (".config/pip", ".cache"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    for settings in (Path(kept.get("PIP_CONFIG_FILE", "")), *(Path.home() / place for place in PIP_SETTINGS)):
        if settings.is_file():
            shutil.copyfile(settings, home / PIP_SETTINGS[0])
            break
    else:
        (home / PIP_SETTINGS[0]).unlink(missing_ok=True)
    account.give(home / ".cache")  # the rest is root's, who writes to it
    of_home = {name for name in kept if name.startswith("XDG_")} | {"PIP_CONFIG_FILE", "PIP_CACHE_DIR"}
    return {name: value for name, value in kept.items() if name not in of_home} | {"HOME": str(home)}


def ask_facts(prefix: Path, python: str = "python", account: Account = MYSELF) -> Facts:
    """Return what the interpreter of the prefix says of itself; BuildError if it does not start."""
    argv = account.command([str(prefix / "bin" / python), "-c", QUESTION])
    done = run_here(argv, environment=environment_of(prefix), folder=Path("/"), limit_s=ANSWER_S)
    if not done.ok:
        raise no_answer(done.stderr, str(prefix))
    try:
        return parse_facts(done.stdout)
    except ValueError as error:
        raise no_answer(str(error), str(prefix)) from None


def _describe(plan: PrefixPlan, *, reused: bool) -> Built:
    size_bytes = sum(path.lstat().st_size for path in plan.prefix.rglob("*"))
    return plan.built(str(plan.prefix), size_bytes, reused=reused)

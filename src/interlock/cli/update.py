"""`interlock update`: finds newer releases, and writes them into variants/ and renders, or only reports them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from interlock.catalog import project, update
from interlock.catalog.project import Catalog, ProjectPaths
from interlock.catalog.upstream import Upstream
from interlock.catalog.variants import Variant
from interlock.cli.images import generated_texts
from interlock.cli.options import console, open_clone
from interlock.engine.build.base import debian_keyring, debian_mirrors
from interlock.engine.docker import connect
from interlock.engine.registry import registry_digest
from interlock.errors import DriftError, NoEngineError, RegistryError, UpstreamError, require_known
from interlock.results import generated
from interlock.swap.writing import FileChange, read_file, replace_files


def update_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="VARIANT|CHANNEL", help="Variants, with their bases, and channels of sources (default: all)."
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; exit with 1 if something newer is released, 8 if not all answer."),
    ] = False,
) -> None:
    """Take newer releases of sources, bases and images of others.

    A source is taken if upstream signed it or Debian's signed index has its sum; the digests of images are their
    registries'. What does not answer is named and left as it is. Then the generated files are written.
    """
    paths, known = open_clone()
    channels, variants = _wanted(known, names or [])
    silent: list[str] = []

    def say(line: str) -> None:
        silent.extend([line] if line.startswith("silent") else [])
        console.say(line)

    upstream = Upstream(debian_mirrors()[0], debian_keyring(), paths.root / "variants/keys", say)
    updates = update.Updates(paths.root)
    news = update.ask(upstream)
    update.update_sources(updates, channels, _pinned(known), news, upstream)
    digest_of = ask_registries(say) if variants else lambda _: None
    update.update_bases(updates, {variant.base: known.bases[variant.base] for variant in variants}, digest_of)
    for variant in variants:
        if variant.image is not None:
            update.update_image(updates, variant, news, digest_of)
    update.update_archives(updates, [variant for variant in variants if variant.archives], upstream)
    nothing = f"nothing newer where somebody answered; {len(silent)} silent" if silent else "nothing newer"
    for line in updates.lines or [nothing]:
        console.say(f"{'stale ' if check and updates.lines else 'update'}  {line}")
    if check and updates.lines:
        problem = f"newer releases are out: {len(updates.lines)}"
        raise DriftError(file=next(iter(updates.texts)), found=problem, todo="Run `interlock update`.")
    if check and silent:
        problem = f"nothing newer is known, but {len(silent)} did not answer"
        raise UpstreamError(found=problem, todo="Make them reachable (see the lines above), or repeat it later.")
    if updates.lines:
        _write(paths, updates.texts)
        if stale := _to_train(known, project.load(paths.root)):
            console.say(f"next    interlock train {' '.join(stale)}")


def _to_train(before: Catalog, now: Catalog) -> list[str]:
    """Return the variants that are built with a stored profile and now have another release."""
    trained = sorted({profile.variant for profile in before.trained.values()} & now.variants.keys())
    return [name for name in trained if now.variants[name].version != before.variants[name].version]


def _wanted(known: Catalog, names: list[str]) -> tuple[list[str], list[Variant]]:
    """Return the named channels and variants, or all; naming a variant names its channels too."""
    every = [*known.sources.channels, *known.variants]
    for name in names:
        require_known(every, name, "variant or channel")
    variants = [known.variants[name] for name in names or every if name in known.variants]
    named = [*names, *(variant.source for variant in variants if variant.source)] if names else every
    return [name for name in dict.fromkeys(named) if name in known.sources.channels], variants


def _pinned(known: Catalog) -> set[str]:
    """Return the sources that variants and libraries name themselves."""
    libraries = [library.source for variant in known.variants.values() for library in variant.libraries]
    return {*libraries, *(variant.source for variant in known.variants.values() if variant.source)}


def ask_registries(say: Callable[[str], None]) -> update.DigestOf:
    """Return a function that asks the engine for the digest that a registry has for a name."""
    try:
        client = connect().client
    except NoEngineError as error:
        say(f"silent  registries, which an engine asks: {error.found}")
        return lambda _: None

    def digest_of(name: str) -> str | None:
        try:
            return registry_digest(client, name)
        except RegistryError as error:
            say(f"silent  {name}: {error.found}")
            return None

    return digest_of


def _write(paths: ProjectPaths, texts: dict[str, str]) -> None:
    """Write these files and what is generated from them: either all existing files, or none."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        shutil.copytree(paths.root / "variants", root / "variants")
        for folder in ("workloads", "dockerfiles", "results"):
            (root / folder).symlink_to(paths.root / folder)
        for file, text in texts.items():
            (root / file).write_text(text, encoding="utf-8")
        made = generated_texts(replace(paths, root=root), project.load(root))
    drifted = [path for path in generated.drift(paths.root, made) if path in made and (paths.root / path).is_file()]
    # Profiles of optimisation are added or removed, but never change.
    written = {path: content for path, content in made.items() if path in drifted and isinstance(content, str)}
    new = texts | written
    replace_files([FileChange(paths.root / path, read_file(paths.root / path), text) for path, text in new.items()])
    for path in [*drifted, *generated.sync(paths.root, made)]:
        console.say(f"render  {path}")

"""Finds newer releases than variants/ has, decides which to take and why, and returns the new texts. Writes nothing."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from packaging.version import Version as Number

from interlock.catalog.sources import FILE, Release, Sources, parse
from interlock.catalog.upstream import DebianSum, UnansweredError, Upstream
from interlock.catalog.variants import Base, Variant
from interlock.errors import CatalogError, UpstreamError
from interlock.untrusted import MOST_TEXT, read_text

BASES = "variants/bases.toml"
# How many of a list's releases are asked for at most: it may name thousands.
MOST_TRIED = 5
# The end of a table's text that is about the next table.
TAIL = re.compile(r"(\n[ \t]*(#.*)?)*\Z")
# The name of an archive of python-build-standalone, in its URL and in the list of sums of each release.
NAMED = r"cpython-(?P<version>\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?)\+(?P<date>\d{8})-(?P<build>[\w.-]+)"
PREBUILT = re.compile(rf"/{NAMED}$")
PREBUILT_SUM = re.compile(rf"^(?P<sha256>[0-9a-f]{{64}}) [ *]{NAMED}$", re.MULTILINE)
PREBUILT_SUMS = "https://github.com/astral-sh/python-build-standalone/releases/latest/download/SHA256SUMS"
# New releases by version, with Debian's sum if there is one.
News = Mapping[str, DebianSum | None]
# Returns the digest that a registry has for a name; None if it has none or does not answer.
DigestOf = Callable[[str], str | None]


@dataclass
class Updates:
    """The texts of variants/ that change, by path below the root, and a line for each change."""

    root: Path
    texts: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def read(self, file: str) -> str:
        """Return a file's text with the changes so far."""
        return self.texts.get(file) or read_text(self.root / file)

    def change(self, file: str, text: str, line: str) -> None:
        """Note a file's new text, and a line about the change."""
        self.texts[file] = text
        self.lines.append(f"{file}: {line}")


def ask(upstream: Upstream) -> News:
    """Return all releases that upstream lists or Debian signed; UpstreamError if neither answers."""
    news: dict[str, DebianSum | None] = {}
    silent = []
    for source in (upstream.listed, upstream.indexed):
        try:
            news |= source()
        except UnansweredError as error:
            silent.append(str(error))
            upstream.say(f"silent  {error}")
    if len(silent) == 2:
        raise UpstreamError(
            found=f"neither upstream nor Debian's mirror says what is released: {'; '.join(silent)}",
            todo="Make one of them reachable, or repeat it later. Nothing is changed.",
        )
    return news


def _newer(version: str, news: News) -> list[str]:
    """Return the few newest releases of the same line that are newer than `version`, the newest first."""
    newer = [listed for listed in news if _line(listed) == _line(version) and Number(listed) > Number(version)]
    return sorted(newer, key=Number, reverse=True)[:MOST_TRIED]


def _line(version: str) -> str:
    return version.rpartition(".")[0]


def update_sources(updates: Updates, channels: Sequence[str], pinned: set[str], news: News, upstream: Upstream) -> None:
    """Move channels on to their newest releases that somebody vouches for.

    A channel keeps one fallback. A source that neither a channel nor a variant (`pinned`) names any more is left out.
    """
    for channel in channels:
        known = parse(updates.root, tomllib.loads(updates.read(FILE)))
        names = known.channels[channel]
        taken = _newest(known.sources[names[0]], news, upstream)
        if taken is None:
            continue
        fallback = _fallback({name: known.sources[name] for name in names}, upstream)
        after = {**known.channels, channel: [taken.version, fallback]}
        gone = {*names} - pinned - {name for listed in after.values() for name in listed}
        sources = {name: source for name, source in {taken.version: taken, **known.sources}.items() if name not in gone}
        text = _rewritten(updates.read(FILE), channel, known, Sources(channels=after, sources=sources))
        line = f"{channel} is {taken.version} in place of {names[0]}, else {fallback} ({taken.sum_from})"
        updates.change(FILE, text, line)


def _newest(head: Release, news: News, upstream: Upstream) -> Release | None:
    """Return the newest release after `head` whose sum is signed; None if there is none."""
    for version in _newer(head.version, news) if head.file.startswith(f"Python-{head.version}.") else ():
        draft = Release.model_validate_json(_renamed(head.model_dump_json(), head.version, version))
        vouched = _vouched(draft, news[version], upstream)
        if vouched is not None:
            return draft.model_copy(update=vouched)
        upstream.say(f"left    {draft.file}: it cannot be had, or nobody signed it or its sum")
    return None


def _vouched(draft: Release, debian: DebianSum | None, upstream: Upstream) -> dict[str, str] | None:
    """Return a release's sum and who vouches for it; None if nobody whose word counts does.

    UpstreamError for a file that contradicts its signature or Debian's index.
    """
    fetched = upstream.fetch(draft.places)
    if fetched is None:
        return dict(vars(debian)) if debian else None
    sha256 = hashlib.sha256(fetched[0]).hexdigest()
    if debian and debian.sha256 != sha256:
        problem = f"has the SHA-256 {sha256}, and {debian.sum_from} says {debian.sha256}"
        raise UpstreamError(key=fetched[1], found=problem, todo="Find out who is right. Nothing is changed.")
    signer = upstream.signer(draft, *fetched)
    words = [f"the file, signed by {signer}"] if signer else []
    words += [debian.sum_from] if debian else []
    return {"sha256": sha256, "sum_from": "; ".join(words)} if words else None


def _fallback(listed: Mapping[str, Release], upstream: Upstream) -> str:
    """Return the newest release that can be had. Debian's come first, because upstream has the taken one anyway."""
    for prefix in ("pool/", ""):
        for name, release in listed.items():
            if upstream.answers([place for place in release.places if place.startswith(prefix)]):
                return name
    return next(iter(listed))


def _renamed(text: str, old: str, new: str) -> str:
    return re.sub(rf"(?<![\d.]){re.escape(old)}(?!\d)", new, text)


def _rewritten(text: str, channel: str, known: Sources, after: Sources) -> str:
    """Return the file's text with a channel's new release before its old head, and without sources that are gone.

    The new table is written like the head's. Comments stay, even those between a table that goes and the next one.
    """
    head = known.channels[channel][0]
    old, new = known.sources[head], after.sources[after.channels[channel][0]]
    parts = []
    for table in re.split(r"^(?=\[)", text, flags=re.MULTILINE):
        name = table.partition("]\n")[0].removeprefix("[sources.").strip('"')
        body = TAIL.sub("", table)
        if name == head and new.version not in known.sources:
            copy = _renamed(body, old.version, new.version).replace(old.sha256, new.sha256)
            parts.append(copy.replace(f'"{old.sum_from}"', f'"{new.sum_from}"') + "\n\n")
        parts.append(table if name in after.sources or name not in known.sources else table[len(body) :].lstrip("\n"))
    names = ", ".join(f'"{name}"' for name in after.channels[channel])
    pattern = re.compile(rf'^("{re.escape(channel)}" = )\[[^\]]*\]', re.MULTILINE)
    result = pattern.sub(rf"\g<1>[{names}]", "".join(parts))
    if parse(Path(), tomllib.loads(result)) != after:
        problem = f"channel {channel} or source {head} is written in a way that update cannot rewrite"
        raise CatalogError(file=FILE, key=channel, found=problem, todo="Write each table and array as the others are.")
    return result


def update_bases(updates: Updates, bases: Mapping[str, Base], digest_of: DigestOf) -> None:
    """Move bases on to the images that their registries now have under the same names."""
    for name, base in bases.items():
        tag, _, old = base.reference.partition("@")
        new = digest_of(tag)
        if new not in {None, old}:
            updates.change(BASES, updates.read(BASES).replace(base.reference, f"{tag}@{new}"), f"{name} is {tag}@{new}")


def update_image(updates: Updates, variant: Variant, news: News, digest_of: DigestOf) -> None:
    """Move an image of others on to what its tag names now: a version, or a line, whose version has the same digest."""
    assert variant.image is not None  # noqa: S101  the caller asks for these alone
    tag, _, old = variant.image.reference.partition("@")
    new = digest_of(tag)
    exact = variant.version in tag
    for version in [*_newer(variant.version, news), variant.version] if new and (exact or new != old) else ():
        digest = digest_of(_renamed(tag, variant.version if exact else variant.release_line, version))
        if digest is not None and (exact or digest == new):
            if digest != old:
                text = _renamed(updates.read(variant.file).replace(old, digest), variant.version, version)
                updates.change(variant.file, text, f"{version} in place of {variant.version} ({digest})")
            return


def update_archives(updates: Updates, variants: Sequence[Variant], upstream: Upstream) -> None:
    """Move archives of python-build-standalone on to the newest of the same build in its latest release."""
    try:
        sums = upstream.get(PREBUILT_SUMS, MOST_TEXT).decode(errors="replace") if variants else ""
    except UnansweredError as error:
        upstream.say(f"silent  {error}")
        return
    for variant in variants:
        text, taken = updates.read(variant.file), set()
        for archive in variant.archives.values():
            have = PREBUILT.search(unquote(archive.places[0]))
            same = [
                listed
                for listed in PREBUILT_SUM.finditer(sums)
                if have and listed["build"] == have["build"] and _line(listed["version"]) == _line(variant.version)
            ]
            new = max(same, key=lambda listed: (Number(listed["version"]), listed["date"]), default=None)
            taken.add((new["version"], new["date"]) if new else None)
            if have and new and new["sha256"] != archive.sha256:
                text = text.replace(archive.sha256, new["sha256"]).replace(have["date"], new["date"])
                text = text.replace(f'"{archive.sum_from}"', '"SHA256SUMS of the release, which nobody signs"')
        # All machines must have the same release.
        if len(taken) == 1 and text != updates.read(variant.file):
            version, date = taken.pop() or ("", "")
            line = f"{version} of {date} in place of {variant.version} (its own SHA256SUMS)"
            updates.change(variant.file, _renamed(text, variant.version, version), line)

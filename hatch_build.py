"""Puts the top-level folders into the wheel: they are the only copy, and what is installed reads the same files."""

from __future__ import annotations

import io
import json
import lzma
import re
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

# Below src/interlock, as catalog/project.py finds them.
DATA = "interlock/data"
FOLDERS = ("variants", "workloads", "dockerfiles", "playbooks")
# For people with a clone: what editors complete.
NOT_READ = ("variants/variant.schema.json", "workloads/workload.schema.json")
# 300 kB each; whoever has none trains one first.
PROFILES = "variants/profiles"
# Of an experiment that comes with Interlock, what a pick and the times of builds are read from.
RESULTS = ("experiment.json", "figures.json", "builds.json")
REFERENCE = "results/reference"
# What a pick says of the service that is most like the user's.
SERVICES = "results/services"
# Its raw values only of README's: what `interlock report` shows who has no results yet.
REPORTED, VALUES = f"{REFERENCE}/2026-12-01-b", "values.tar.xz"
LINK = re.compile(r"\[([^]\[]+)\]\((?!https?:|mailto:|#)([^)\s]+)\)")
SHOWN = re.compile(r'(src|srcset)="(?!https?:)([^"]+)"')
PICTURE = re.compile(r"<picture>.*?</picture>\n*|<img[^>]*>\n*", re.DOTALL)
# How git names a repository that others can read: https://HOST/PATH, git@HOST:PATH or ssh://git@HOST/PATH.
REMOTE = re.compile(
    r"(?:https://(?:[^@/\s]+@)?|git@|ssh://git@)(?P<host>[\w-]+(?:\.[\w-]+)+)[:/](?P<path>[\w./~-]+?)(?:\.git)?/?"
)


def data_files(root: Path) -> list[Path]:
    """Return the files that what is installed reads, below the root: no variant's build context, which it renders."""
    contexts = {root / "dockerfiles" / path.stem for path in (root / "variants").glob("*.toml")}
    found = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.is_file()]
    left = {*contexts, *studies_profiles(root), *(root / path for path in NOT_READ)}
    kept = [path for path in found if not left & {path, *path.parents} and "__pycache__" not in path.parts]
    return [path.relative_to(root) for path in kept]


def studies_profiles(root: Path) -> set[Path]:
    """Return the profiles of optimisation of variants outside the core set: few build those from what is installed."""
    trained = {path: tables(path)["variant"] for path in root.glob(f"{PROFILES}/*.toml")}
    studies = [path for path, name in trained.items() if not tables(root / f"variants/{name}.toml").get("core")]
    return {path.with_suffix(suffix) for path in studies for suffix in (".toml", ".tar.xz")}


def tables(path: Path) -> dict[str, Any]:
    """Return what a TOML file says."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def records(root: Path) -> list[Path]:
    """Return the records of the experiments and services that come with Interlock, below the root."""
    found = [path for name in RESULTS for path in sorted((root / REFERENCE).glob(f"*/{name}"))]
    return [path.relative_to(root) for path in (*found, *sorted((root / SERVICES).glob("*.json")))]


def pack_record(path: Path, folder: Path) -> Path:
    """Write a record as xz, a ninth of it, the same for the same record; return where."""
    packed = folder / "-".join(path.parts[-2:])
    data = json.dumps(json.loads(path.read_text(encoding="utf-8")), separators=(",", ":"), ensure_ascii=False)
    packed.write_bytes(lzma.compress(data.encode(), preset=6))
    return packed


def pack_values(folder: Path, path: Path) -> None:
    """Write an archive of an experiment's values the same for the same files."""
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for cell in sorted(folder.glob("*/*/*.json")):
            data = json.dumps(rounded(json.loads(cell.read_bytes())), separators=(",", ":")).encode()
            entry = tarfile.TarInfo(cell.relative_to(folder).as_posix())
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def rounded(value: Any) -> Any:
    """Return JSON whose numbers have nine significant digits: no clock has more, and reports come out the same."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, list):
        return [rounded(one) for one in value]
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return value


class DataHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the files to a wheel; one that is installed in place (`pip install -e`) reads those of its clone."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if self.target_name == "sdist":  # a wheel that is built from it packs them
            cells = (root / REPORTED).glob("*/*/*.json")
            build_data["force_include"] |= {str(path): str(path.relative_to(root)) for path in cells}
        if version != "editable" and self.target_name == "wheel":
            self.made = Path(tempfile.mkdtemp())
            pack_values(root / REPORTED, self.made / VALUES)
            placed = {str(path): f"{DATA}/{path}" for path in data_files(root)}
            placed |= {str(pack_record(root / path, self.made)): f"{DATA}/{path}" for path in records(root)}
            build_data["force_include"] |= {**placed, str(self.made / VALUES): f"{DATA}/{REPORTED}/{VALUES}"}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable" and self.target_name == "wheel":
            shutil.rmtree(self.made)


class PageHook(MetadataHookInterface):
    """Takes the project's page from git, as the version, and README.md with links that work on a page elsewhere."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        page = page_of(Path(self.root))
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["urls"] = urls_below(page) if page else {}
        metadata["readme"] = {"content-type": "text/markdown", "text": text_elsewhere(text, page)}


def page_of(root: Path) -> str | None:
    """Return the address of the page of git's remote `origin`; None where it is none that a browser can open."""
    if not (root / ".git").exists():  # an archive; another project's clone may be around it
        return None
    try:
        asked = subprocess.run(
            ["git", "remote", "get-url", "origin"], cwd=root, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    found = REMOTE.fullmatch(asked.stdout.strip())
    return f"https://{found['host']}/{found['path']}" if found else None


def urls_below(page: str) -> dict[str, str]:
    """Return what a package's page links to."""
    pages = {"Documentation": "docs/cli.md", "Changelog": "CHANGELOG.md"}
    return {"Source": page, **{name: f"{page}/blob/main/{path}" for name, path in pages.items()}}


def text_elsewhere(text: str, page: str | None) -> str:
    """Return Markdown whose relative links and pictures lead to the page; without one links are words alone."""
    if page is None:
        return LINK.sub(r"\1", PICTURE.sub("", text))
    linked = LINK.sub(lambda found: f"[{found[1]}]({page}/blob/main/{found[2]})", text)
    return SHOWN.sub(lambda found: f'{found[1]}="{page}/raw/main/{found[2]}"', linked)

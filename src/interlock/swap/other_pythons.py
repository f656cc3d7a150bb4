"""Finds what uses another Python than the image's: installers, environments, workflow steps, Debian packages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from interlock.swap.caveats import Caveat, Weight
from interlock.swap.image_names import NewImage, PythonImage
from interlock.swap.uses import AT_COMMAND, FEATURE, STEP, Use, Used

# What makes uv use another interpreter although the image names its own in UV_PYTHON.
UV_OTHER = re.compile(
    r"\buv\s+python\s+(?:install|pin)\b|--managed-python\b|UV_MANAGED_PYTHON=|UV_PYTHON_PREFERENCE=\"?only-managed"
)
UV_VERSION = re.compile(r"(?:/uv:|\buv==)([0-9]{1,9})\.([0-9]{1,9})")
FIRST_UV = (0, 5)  # the first that knows the names of free-threaded builds
# What brings its own Python and puts it first in PATH.
OTHER_PATH = re.compile(
    r"(?<!\S)PATH[=\s]\"?[^\s:$]*(?:conda|mamba|miniforge|/\.?pyenv/|/\.pixi/|/mise/|/\.?asdf/)[^\s:]*"
)
IN_FOLDER = r"(?:[^\s;&|(`]{0,4096}/)?"
CONDA = rf"{IN_FOLDER}(?:conda|mamba|micromamba)"
OTHERS_ASK = re.compile(
    rf"{AT_COMMAND}((?:poetry\s+env\s+use|pdm\s+use|pipenv\s[^;&|]*--python|pyenv\s+(?:install|global|local)"
    rf"|{CONDA}\s+(?:env\s+)?(?:create|install|update)|hatch\s+python\s+install|{IN_FOLDER}pixi\s+(?:install|global|add))\b)",
    re.MULTILINE,
)
OTHERS_RUN = re.compile(
    rf"{AT_COMMAND}({CONDA}\s+(?:run|activate)\b|{IN_FOLDER}pixi\s+(?:run|shell|exec)\b"
    r"|(?=[^\s;&|(`]*(?:conda|mamba|miniforge|/\.pixi/))[^\s;&|(`]*/bin/(?:python|pip)[\d.]*)",
    re.MULTILINE,
)
# Files of the project say which Python these use; tests/proofs/test_installers.py checks the real installers.
PROJECTS_CHOICE = {
    "pdm": (
        "fetches another Python where .python-version is not {0} (ENV PDM_USE_PYTHON_VERSION=0 leaves that file aside) "
        "or requires-python does not admit {1}"
    ),
    "pipenv": "ends where the Pipfile's python_version is not {1}",
    "hatch": "fetches another Python where an environment's `python` in its settings is not {0}",
    "tox": "ends or skips where tox.ini's environments name another Python (py312, basepython): name {0} there",
    "nox": "ends or skips where the noxfile's sessions name another Python: name {0} there",
}
# Where a Python program is called: by its name, as a module, or by uvx.
CALLED = rf"(?:{AT_COMMAND}{IN_FOLDER}|\s-m\s+|\buvx\s+(?:--\S+\s+)*)"
INSTALLER = re.compile(
    rf"{CALLED}(?:(tox|nox)(?![\w.=/-])|(pdm|pipenv|hatch)"
    r"\s+(?:-\S+\s+)*(?:install|sync|update|add|lock|run|build|env|venv|test|shell|export)\b)",
    re.MULTILINE,
)
# What overrides the project's choice.
CHOSEN = re.compile(r"\b(?:PDM_USE_PYTHON_VERSION=\"?(?:0|false)|PDM_PYTHON=|PIPENV_PYTHON=|HATCH_PYTHON=)", re.I)
# Features of a devcontainer that put their own Python first in PATH.
OTHER_FEATURE = re.compile(r".*/(?:python|conda|anaconda|miniforge)(?:[:@].*)?")
# GitHub actions that bring a Python, by what they put first in PATH.
FIRST_IN_PATH = re.compile(r"(?:[\w.-]+/setup-python|pdm-project/setup-pdm|deadsnakes/action)@")
OWN_ENVIRONMENT = re.compile(r"(?:conda-incubator/setup-miniconda|mamba-org/setup-micromamba|prefix-dev/setup-pixi)@")
SETUP_UV = re.compile(r"astral-sh/setup-uv@.*\bpython-version=(\S+)")
PATH_STAYS = "update-environment=false"
DEBIAN_PYTHON = {"bookworm": "3.11", "trixie": "3.13"}
# Debian packages that embed Debian's libpython, and libpython itself.
EMBEDDING = re.compile(r"(?:uwsgi-plugin-(?:asyncio-)?python3|libapache2-mod-wsgi-py3)(?:=\S*)?")
LIBPYTHON = re.compile(r"libpython3(?:\.\d+)?(?:-dev)?(?:=\S*)?")
# Debian's packages of one Python, and the packages that run it whatever comes first in PATH.
DEBIANS = re.compile(r"(?:lib)?python(3\.\d+)(?:-[a-z-]+)?(?:=\S*)?")
# pip and uv with an option for the Python to fetch wheels for.
FETCH = re.compile(r"\b((?:uv\s+)?pip[\d.]*\s+(?:--\S+\s+)*(?:install|download|wheel|sync|compile))\b([^;&|\n]*)")
FETCH_FOR = re.compile(r"(?<!\S)--(python-version|abi|platform|python-platform)[=\s]\s*[\"']?([\w.-]+)")
NOT_FOR_DEBIAN = re.compile(r"musllinux|macosx|win|.*-(?:musl|darwin|windows)|macos")
# tox and nox with an environment that is named after a Python.
NAMED_ENVIRONMENT = re.compile(
    CALLED + r"((?:tox|nox)\b[^;&|\n]*?(?:(?:[\s,=]|-e)py(?P<digits>[23]\d{1,2}t?)\b|-(?P<dotted>[23]\.\d+t?)\b"
    r"|\s(?:-p|--pythons?|--force-pythons?|-P)[=\s](?P<option>[23]\.\d+t?)\b))",
    re.MULTILINE,
)


def other_pythons(used: Used, to: NewImage) -> Iterator[Caveat]:
    """Yield the lines that use another Python than the new image's, or ask for one that it lacks."""
    old = used.line.python
    for use in used.uses:
        broken = [*_other_pythons(use, to), *_of_a_step(use, to)]
        if use.runs:
            broken += [*_fetched_for_another(use, to), *_named_environments(use, old, to)]
            yield from _debians(use, to)
        yield from (Caveat(use.line, said, Weight.BREAKS) for said in broken)
        if use.keyword in {"COPY", "ADD"} and ".python-version" in use.text:
            takes = "uv takes {} all the same (UV_PYTHON of the image), pdm and pyenv take what it names"
            yield Caveat(use.line, f".python-version is copied in: {takes.format(to.python)}", Weight.KNOW)
        if match := OTHERS_ASK.search(use.text) if use.runs else None:
            said = f"{_words(match[1])}: uses or downloads the Python that it names, not the image's {to.command}"
            yield Caveat(use.line, said)
    if old is None or old.agrees_on != (to.implementation, to.python):
        yield from _projects_choices(used.uses, to)


def _other_pythons(use: Use, to: NewImage) -> Iterator[str]:
    """Yield where uv, conda and others certainly use another Python than the image's."""
    if match := UV_OTHER.search(use.text):
        yield f"{match[0]}: uv takes a Python of its own, or ends, because the image forbids downloads: leave it out"
    version = UV_VERSION.search(use.text)
    if version and to.free_threaded and (int(version[1]), int(version[2])) < FIRST_UV:
        yield f"uv {version[1]}.{version[2]} does not know python{to.python}: take 0.5 or later"
    if match := OTHER_PATH.search(use.text) if use.keyword == "ENV" else None:
        yield f"{_words(match[0])}: the Python there comes first, so {to.command} does not run"
    if use.keyword == FEATURE and OTHER_FEATURE.fullmatch(use.text):
        yield f"{use.text}: the Python that it installs comes first, so {to.command} does not run: leave it out"
    if match := OTHERS_RUN.search(use.text) if use.runs else None:
        yield f"{_words(match[1])}: its Python runs, not the image's {to.command}"


def _projects_choices(uses: Sequence[Use], to: NewImage) -> Iterator[Caveat]:
    """Yield the installers that use the Python that a file of the project names."""
    chosen = {match[0].partition("_")[0].lower() for use in uses for match in CHOSEN.finditer(use.text)}
    for use in uses:
        told = OTHERS_ASK.search(use.text) or NAMED_ENVIRONMENT.search(use.text)
        names = (
            dict.fromkeys(match[1] or match[2] for match in INSTALLER.finditer(use.text))
            if use.runs and not told
            else ()
        )
        for name in names:
            if name not in chosen:
                choice = PROJECTS_CHOICE[name].format(to.python, to.python.rstrip("t"))
                yield Caveat(use.line, f"{name} {choice}")


def _of_a_step(use: Use, to: NewImage) -> Iterator[str]:
    """Yield the action of a workflow's step that brings another Python into the job's container."""
    if use.keyword != STEP:
        return
    action = use.text.split()[0]
    if FIRST_IN_PATH.match(action) and PATH_STAYS not in use.text:
        yield f"{action}: the Python that it installs comes first, so {to.command} does not run: leave it out"
    if OWN_ENVIRONMENT.match(action):
        yield f"{action}: what runs in its environments has their Python, not the image's {to.command}"
    asked = SETUP_UV.match(use.text)
    if asked and asked[1] != to.python:
        version = "what the workflow chooses" if "$" in asked[1] else asked[1]
        yield f"{action}: sets UV_PYTHON to {version}, and the image forbids downloads: leave its python-version out"


def _debians(use: Use, to: NewImage) -> Iterator[Caveat]:
    """Yield the packages of Debian's Python: those of another release, and those that run it."""
    own = DEBIAN_PYTHON.get(to.suite)
    packages = use.packages_as_written
    versions = {word: package[1] for word in packages if (package := DEBIANS.fullmatch(word))}
    if gone := [word for word, version in versions.items() if own and version != own]:
        said = f"installs {' and '.join(gone)}, which Debian {to.suite} does not have: its Python is {own}"
        yield Caveat(use.line, said, Weight.BREAKS)
    if embedding := [word for word in packages if EMBEDDING.fullmatch(word)]:
        out = (
            f"that of pip needs libpython: {to.way_out('libpython')}" if "libpython" in to.differences else "take pip's"
        )
        said = f"{' and '.join(embedding)}: runs Debian's python{own or '3'}, not the image's {to.command}; {out}"
        yield Caveat(use.line, said, Weight.BREAKS)
    elif linked := [word for word in packages if LIBPYTHON.fullmatch(word) and word not in gone]:
        said = f"{' and '.join(linked)}: what links it runs Debian's python{own or '3'}, not the image's {to.command}"
        yield Caveat(use.line, said)


def _fetched_for_another(use: Use, to: NewImage) -> Iterator[str]:
    """Yield where pip or uv is told to fetch wheels for a certain Python or system."""
    plain = to.python.rstrip("t")
    pypy = to.implementation != "python"
    tag = f"cp{to.python.replace('.', '')}"
    for command in FETCH.finditer(use.text):
        told = FETCH_FOR.findall(command[2])
        versions = [value for name, value in told if name == "python-version"]
        abis = [value for name, value in told if name == "abi"]
        by_pip = not command[1].startswith("uv")
        foreign = [version for version in versions if _minor(version) not in {plain, plain.partition(".")[0]}]
        wrong_abi = by_pip and bool(abis or (versions and to.free_threaded)) and tag not in abis
        if foreign or wrong_abi or (by_pip and pypy and versions):
            asked = " ".join(f"--{name} {value}" for name, value in told if name in {"python-version", "abi"})
            write = f"--python-version {plain}{f' --abi {tag}' if by_pip and (abis or to.free_threaded) else ''}"
            todo = "leave it out" if pypy else f"write {write}"
            yield f"{_words(command[1])} {asked}: takes what is for another Python than {to.command}: {todo}"
        for value in (value for name, value in told if name.endswith("platform") and NOT_FOR_DEBIAN.match(value)):
            yield f"{_words(command[1])} takes wheels for {value}, and the new image is Debian {to.suite} (glibc)"


def _minor(version: str) -> str:
    """Return a version as pip reads it, 3.12, 3.12.1 or 312, without its patch."""
    joined = version if "." in version or len(version) == 1 else f"{version[0]}.{version[1:]}"
    return ".".join(joined.split(".")[:2])


def _named_environments(use: Use, old: PythonImage | None, to: NewImage) -> Iterator[str]:
    """Yield where tox or nox is told to use an environment of the Python that is swapped."""
    for command in NAMED_ENVIRONMENT.finditer(use.text):
        digits = command["digits"]
        version = f"{digits[0]}.{digits[1:]}" if digits else command["dotted"] or command["option"]
        if version != to.python and (old is None or old.python in {None, version}):
            yield f"{_words(command[1])}: needs python{version}, and the image has {to.command} alone"


def _words(text: str) -> str:
    return " ".join(text.split())

"""Packages in the real engine: got with the variant's pip, built where there is no wheel, found again the next time."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from docker.errors import NotFound

from interlock.catalog import project as catalogs
from interlock.catalog.project import Catalog
from interlock.engine.ended import Ended
from interlock.engine.ownership import OWNER_LABEL
from interlock.engine.packages import installer as packages
from interlock.engine.run import execution, leftovers
from interlock.results.experiments import Built, PackageSet, State
from tests.builders import ROOT
from tests.integration.images import QUICK, Images

OWNER = f"test-packages-{os.getpid()}"
# No wheel, no pyproject.toml, and an extension module: the builder's compiler makes it.
SETUP = """\
from setuptools import Extension, setup
setup(name="toy", version="1.0", py_modules=["toy"], ext_modules=[Extension("_toy", ["_toy.c"])])
"""
C = """\
#include <Python.h>
#if PY_MAJOR_VERSION >= 3
static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "_toy", NULL, -1, NULL};
PyMODINIT_FUNC PyInit__toy(void) { return PyModule_Create(&def); }
#else
PyMODINIT_FUNC init_toy(void) { Py_InitModule("_toy", NULL); }
#endif
"""

pytestmark = pytest.mark.usefixtures("nothing_left")


@dataclasses.dataclass
class Steps:
    said: list[str] = dataclasses.field(default_factory=list)

    def __call__(self, _: str, step: str) -> None:
        self.said.append(step)


@pytest.fixture
def steps() -> Steps:
    return Steps()


AGAIN = f"{QUICK}-again"


@pytest.fixture
def both(catalog: Catalog, built: Images) -> tuple[Catalog, list[Built]]:
    """One interpreter by two names: what variants have is installed side by side."""
    image = built[QUICK]
    variants = {**catalog.variants, AGAIN: catalog.variants[QUICK]}
    return catalog.model_copy(update={"variants": variants}), [image, image.model_copy(update={"variant": AGAIN})]


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that this machine's pip finds archives in: one that builds, and one whose C is wrong."""
    for version, text in (("1.0", C), ("2.0", C.replace("NULL", "NOTHING"))):
        folder = tmp_path / f"toy-{version}"
        folder.mkdir()
        files = {"setup.py": SETUP.replace("1.0", version), "_toy.c": text, "toy.py": "import _toy\n"}
        files["PKG-INFO"] = f"Metadata-Version: 1.0\nName: toy\nVersion: {version}\n"
        for name, content in files.items():
            (folder / name).write_text(content)
        with tarfile.open(tmp_path / f"toy-{version}.tar.gz", "w:gz") as tar:
            tar.add(folder, folder.name)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return tmp_path


def forget(client: Any, found: PackageSet) -> None:
    """Nothing may have a volume that is to be removed."""
    leftovers.clean_up(client, OWNER)
    client.volumes.get(found.volume).remove()


@pytest.fixture
def cell(client: Any, built: Images) -> Iterator[Any]:
    """Run a program in a container without a network, the packages read-only, as in cells."""
    opened = []

    def run(found: PackageSet, program: str) -> Ended:
        opened.append(
            client.containers.run(
                built[QUICK].image_id,
                ["sleep", "600"],
                entrypoint=[],
                detach=True,
                network_mode="none",
                volumes={found.volume: {"bind": found.mount_path, "mode": "ro"}},
                labels={OWNER_LABEL: OWNER},
            )
        )
        return execution.run_process(opened[-1], ["python", "-c", program], 60, {"PYTHONPATH": found.site})

    yield run
    leftovers.clean_up(client, OWNER)


def test_each_has_its_packages_in_the_order_that_was_asked_for_or_says_why_it_has_none(
    client: Any, both: tuple[Catalog, list[Built]], root: Path, steps: Steps, sources: Path, cell: Any
) -> None:
    """Two variants side by side: what is built, what has a wheel, what is nowhere, and what does not compile."""
    catalog, images = both
    lines = ("toy==1.0", "six==1.16.0", "interlock-has-no-such-package", "toy==2.0")
    wanted = [(images[place % 2], [line]) for place, line in enumerate(lines)]
    installer = packages.ImageInstaller(client, catalog, root, steps)
    # The volume of an installation that never became whole.
    begun = packages.planned(images[0].image_id, [lines[0]])
    client.volumes.create(begun.volume, labels={packages.IMAGE_LABEL: images[0].image_id})
    found = installer.ensure_all(wanted)
    try:
        toy, _, nowhere, wrong = found
        assert [one.versions for one in found] == [{"toy": "1.0"}, {"six": "1.16.0"}, {}, {}]
        assert (toy.volume, len({one.volume for one in found})) == (begun.volume, len(lines))
        said = cell(toy, "import toy, _toy; print(toy.__file__, open(toy.__cached__).name); open(toy.__file__, 'a')")
        place, compiled = said.stdout.split()  # compiled, at the place where cells have it
        assert (place, Path(compiled).parent) == (f"{toy.site}/toy.py", Path(toy.site, "__pycache__"))
        assert "Read-only file system" in said.stderr
        assert {one.outcome.state for one in (nowhere, wrong)} == {State.FAILED}
        assert nowhere.outcome.reason.startswith("interlock-has-no-such-package ")
        # The compiler quotes as its locale has it.
        assert re.match("toy .*_toy.c:.*error: .NOTHING. undeclared", wrong.outcome.reason)
        steps.said.clear()
        assert installer.ensure(images[0], [lines[0]]) == toy
        assert steps.said == []
    finally:
        for one in found:
            forget(client, one)


def test_an_interrupt_leaves_nothing_of_what_is_installed_side_by_side(
    client: Any,
    both: tuple[Catalog, list[Built]],
    root: Path,
    sources: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("interlock.engine.packages.installer.ABANDON_S", 60)  # other tests' builds slow the engine
    fetching = set()
    catalog, images = both

    def interrupt(variant: str, step: str) -> None:
        # Once, when both have their builders: a second Ctrl-C ends the cleaning, and the first waits for no build.
        if step.startswith("fetching"):
            fetching.add(variant)
            if len(fetching) == len(wanted):
                os.kill(os.getpid(), signal.SIGINT)

    installer = packages.ImageInstaller(client, catalog, root, interrupt)
    wanted = [(image, [line]) for image, line in zip(images, ("toy==1.0", "toy==2.0"), strict=True)]
    # Whoever starts tests in the background of a script has told them to ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            installer.ensure_all(wanted)
        assert not installer.at_work  # nothing_left looks for the rest
    finally:
        signal.signal(signal.SIGINT, before)
        for image, lines in wanted:
            with suppress(NotFound):
                forget(client, packages.planned(image.image_id, lines))


def test_volumes_of_images_that_are_gone_go_and_others_stay(client: Any, built: Images) -> None:
    names = {
        "interlock-packages-test-gone": "sha256:gone",
        "interlock-packages-test-there": built[QUICK].image_id,
    }
    for name, image_id in names.items():
        client.volumes.create(name, labels={packages.IMAGE_LABEL: image_id})
    packages.ImageInstaller(client, catalogs.load(ROOT), ROOT, lambda *_: None).tidy()
    left = {volume.name for volume in client.volumes.list()}
    client.volumes.get("interlock-packages-test-there").remove()
    assert left & set(names) == {"interlock-packages-test-there"}

"""Requirements in a real free-threaded image: a GIL that really comes back, and who brought it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.project import Catalog
from interlock.catalog.variants import Gil
from interlock.results.answers import VariantAudit
from tests.integration import wheelhouse
from tests.integration.images import FREE_THREADED, Images
from tests.integration.test_audit import auditing, packages
from tests.integration.toys import copy_project, interlock

PACKAGES = dict(
    [
        wheelhouse.wheel("toy-app", {"toy_app.py": "import toy_user"}, "toy-user"),
        wheelhouse.wheel("toy-user", {"toy_user.py": "import toy_switcher._c"}, "toy-switcher"),
        wheelhouse.wheel(
            "toy-silent", {"toy_silent.py": "import warnings\nwarnings.simplefilter('ignore')\nimport toy_user"}
        ),
        wheelhouse.source("toy-switcher", wheelhouse.SWITCHING),
        wheelhouse.source("toy-safe", wheelhouse.SAFE, "from toy_safe import _c"),
    ]
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def requirements(here: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A file of all the toys, while an index has them."""
    with wheelhouse.index(PACKAGES, host=here) as url:
        file = tmp_path_factory.mktemp("audit") / "requirements.txt"
        file.write_text(f"--index-url {url}\ntoy-app\ntoy-silent\ntoy-safe\n")
        yield file


@pytest.fixture(scope="module")
def audited(client: Any, catalog: Catalog, root: Path, built: Images, requirements: Path) -> VariantAudit:
    (found,) = auditing(client, catalog, root, built[FREE_THREADED])(requirements, modules=["json", "toy_user"])
    return found


def test_the_extension_module_that_switches_the_gil_on_is_named_with_its_package(audited: VariantAudit) -> None:
    assert audited.gil is Gil.OFF
    found = {one.module: (one.gil_by, one.gil_package) for one in audited.every_import if one.gil_by}
    switcher = ("toy_switcher._c", "toy-switcher")
    # Of the switcher itself the package imports nothing: its extension module was looked for.
    assert found == dict.fromkeys(("toy_app", "toy_user", "toy_silent", "toy_switcher._c"), switcher)


def test_a_module_that_declares_itself_safe_leaves_the_gil_off(audited: VariantAudit) -> None:
    assert [(one.error, one.gil_by) for one in packages(audited)["toy-safe"].imports] == [("", "")]


def test_further_modules_are_asked_too(audited: VariantAudit) -> None:
    assert [(one.module, one.gil_by) for one in audited.further] == [("json", ""), ("toy_user", "toy_switcher._c")]


def test_who_switches_the_gil_on_does_not_pass_the_gate(
    root: Path, audited: VariantAudit, requirements: Path, tmp_path: Path
) -> None:
    # Without its control, which would be audited with it.
    alone = copy_project(root, tmp_path / "project", [FREE_THREADED], [])
    bad = interlock(alone, "audit", "--variants", FREE_THREADED, "-r", str(requirements), "--json", code=1)
    error = json.loads(bad.stderr)["error"]
    assert error["kind"] == "AuditError"
    assert f"toy-switcher 1.0 on {FREE_THREADED}" in error["message"]

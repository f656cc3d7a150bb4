"""Which modules a package has: what people import, what may switch the GIL on, and whose each is."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from pathlib import Path

import pytest

from interlock import installed
from interlock.installed import Distribution

EXTENSION = "cpython-314t-x86_64-linux-gnu.so"
LXML = [
    "../../../bin/lxml-tool",
    "lxml-6.1.3.dist-info/METADATA",
    "lxml/__init__.py",
    "lxml/__pycache__/__init__.cpython-314.pyc",
    f"lxml/etree.{EXTENSION}",
    "lxml/etree.pyx",
    f"lxml/_elementpath.{EXTENSION}",
    "lxml/html/__init__.py",
    f"lxml/tests/_speed.{EXTENSION}",
]
CFFI = [f"_cffi_backend.{EXTENSION}", "cffi/__init__.py", "cffi/api.py", "_private.py"]


def test_a_package_is_imported_by_its_own_name_not_by_what_it_holds() -> None:
    assert installed.top_modules(LXML) == ["lxml"]


def test_a_module_of_one_file_counts_whether_source_or_extension() -> None:
    assert installed.top_modules(["six.py", f"ujson.{EXTENSION}", "abi.abi3.so"]) == ["abi", "six", "ujson"]


def test_private_modules_are_not_imported_by_themselves() -> None:
    assert installed.top_modules(CFFI) == ["cffi"]


def test_what_is_there_for_the_packages_own_developers_is_left_out() -> None:
    files = [
        "foo.py",
        "tests/__init__.py",
        "test_foo.py",
        "foo_tests/__init__.py",
        "conftest.py",
        "setup.py",
        "docs/conf.py",
    ]
    assert installed.top_modules(files) == ["foo"]


def test_below_a_namespace_package_its_parts_are_imported() -> None:
    files = ["google/cloud/storage/__init__.py", "google/cloud/storage/blob.py", "google/api.py", "google/_helper.py"]
    assert installed.top_modules(files) == ["google.api", "google.cloud.storage"]


def test_what_is_no_module_is_none() -> None:
    files = ["foo-bar/x.py", "1st.py", "foo.pth", "foo/data.json", "../lib/x.py", "/etc/x.py", "foo.libs/libz-1.so.2"]
    assert installed.top_modules(files) == []
    assert installed.extension_modules(files) == []


def test_extension_modules_are_all_that_may_switch_the_gil_on_private_ones_included() -> None:
    assert installed.extension_modules(LXML) == ["lxml._elementpath", "lxml.etree"]
    assert installed.extension_modules(CFFI) == ["_cffi_backend"]
    built_in = [f"pkg/__init__.{EXTENSION}", f"numpy/_core/_umath_tests.{EXTENSION}", f"x/_testbuffer.{EXTENSION}"]
    assert installed.extension_modules(built_in) == ["pkg"]


def test_a_library_that_comes_with_a_package_is_no_module() -> None:
    files = ["numpy.libs/libgfortran-040039e1.so.5.0.0", "numpy.libs/libquadmath-96973f99.so", "foo/libx-1.so"]
    assert installed.extension_modules(files) == []


def test_the_owner_of_a_module_is_who_has_its_file() -> None:
    owned = installed.owners([Distribution("LXML", "6.1.3", LXML), Distribution("cffi", "2", CFFI)])
    assert installed.owner_of("lxml.etree", owned) == "lxml"
    assert installed.owner_of("_cffi_backend", owned) == "cffi"


def test_a_module_without_a_file_of_its_own_belongs_to_its_nearest_parent() -> None:
    owned = installed.owners(
        [Distribution("a", "1", ["ns/one/__init__.py"]), Distribution("b", "1", ["ns/two/__init__.py"])]
    )
    assert installed.owner_of("ns.two.made.up", owned) == "b"
    assert installed.owner_of("ns", owned) == ""
    assert installed.owner_of("json", owned) == ""


def test_what_the_program_prints_is_read_and_chatter_is_not() -> None:
    line = json.dumps({"name": "Foo_Bar", "version": "1", "files": ["foo.py"]})
    (found,) = installed.parse(f"a warning\n{line}\n")
    assert (found.key, found.version, found.files) == ("foo-bar", "1", ["foo.py"])


@pytest.mark.parametrize(
    "name", ["pydantic", "jinja2", "markupsafe", "hypothesis", "pytest", "packaging", "rich", "scipy"]
)
def test_every_top_level_module_of_a_real_package_can_be_found_by_python(name: str) -> None:
    files = [str(path) for path in importlib.metadata.files(name) or []]
    found = installed.top_modules(files)
    assert found, name
    assert [module for module in found if importlib.util.find_spec(module) is None] == []


def test_the_extension_modules_of_a_real_package_are_files_that_are_there() -> None:
    files = importlib.metadata.files("pydantic_core") or []
    (module,) = installed.extension_modules([str(path) for path in files])
    assert module == "pydantic_core._pydantic_core"
    assert Path(importlib.util.find_spec(module).origin or "").is_file()  # type: ignore[union-attr]

#!/bin/sh
# Packs the byte code of the installed standard library into one file, which oxidized_importer maps into memory, and has
# each start of the interpreter import from there first. Run on $PREFIX when its byte code is compiled, with the wheel
# of oxidized_importer for that CPython (3.8 to 3.10) in $BUILD_DIR. The library also stays on disk, for starts without
# site or with -O.
set -eu
: "${PREFIX:=/usr/local}" "${BUILD_DIR:=/build}"

PYTHONHASHSEED=0 "$PREFIX/bin/python3" -S -B - "$BUILD_DIR"/oxidized_importer-*.whl <<'PYTHON'
import py_compile
import sys
import zipfile
from pathlib import Path
from sysconfig import get_path

# They find their scripts, wheels, grammars and settings by __file__, which a module from memory does not have; the last
# is what is written here.
ON_DISK = {"venv", "ensurepip", "lib2to3", "distutils", "pydoc", "sitecustomize"}
# sitecustomize and not a .pth file: a virtual environment has site-packages of its own, but this library.
SITECUSTOMIZE = '''\
"""Imports the standard library's byte code from oxidized/stdlib.packed: first on sys.meta_path from here on."""

import sys

_library = __file__.rpartition("/")[0]
sys.path.insert(0, _library + "/oxidized")
from oxidized_importer import OxidizedFinder  # noqa: E402

del sys.path[0]
_finder = OxidizedFinder()
_finder.index_file_memory_mapped(_library + "/oxidized/stdlib.packed")


class _WithOrigin:
    """What -m runs has its place as sys.argv[0], which the finder does not say."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = _finder.find_spec(name, path, target)
        if spec is not None:
            end = ".py" if spec.submodule_search_locations is None else "/__init__.py"
            spec.origin = _library + "/" + name.replace(".", "/") + end
        return spec


sys.meta_path.insert(0, _WithOrigin if sys.argv[:1] == ["-m"] else _finder)
sys.path_hooks.append(_finder.path_hook)  # for pkgutil: what is in a package
'''

library = Path(get_path("stdlib"))
folder = library / "oxidized"
with zipfile.ZipFile(sys.argv[1]) as wheel:
    wheel.extractall(folder)
sys.path.insert(0, str(folder))
import oxidized_importer  # noqa: E402


def is_packed(resource):
    if not isinstance(resource, oxidized_importer.PythonModuleBytecode) or resource.optimize_level != 0:
        return False
    place = library.joinpath(*resource.module.split("."))
    source = place / "__init__.py" if resource.is_package else place.with_name(place.name + ".py")
    return source.exists() and place.relative_to(library).parts[0] not in ON_DISK


modules = [resource for resource in oxidized_importer.find_resources_in_path(str(library)) if is_packed(resource)]
collector = oxidized_importer.OxidizedResourceCollector(allowed_locations=["in-memory"])
for module in sorted(modules, key=lambda module: module.module):
    collector.add_in_memory(module)
finder = oxidized_importer.OxidizedFinder()
finder.add_resources(collector.oxidize()[0])
packed = finder.serialize_indexed_resources()
(folder / "stdlib.packed").write_bytes(packed)
hook = library / "sitecustomize.py"
hook.write_text(SITECUSTOMIZE)
# The date that it gets afterwards does not make it stale.
py_compile.compile(str(hook), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
print(f"interlock: {len(modules)} modules are in {folder}/stdlib.packed, {len(packed)} bytes")
PYTHON

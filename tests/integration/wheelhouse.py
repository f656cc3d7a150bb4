"""A package index on this machine, with toy packages that need no other: wheels, and sources that build themselves."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import ipaddress
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from interlock.engine.build.sources import tar_of
from tests.fakes import Answer, Asked, serving

# A build backend (PEP 517) in the source itself: it compiles toy.c, if there is one, with what config.txt says.
BACKEND = """\
import os, subprocess, sys, sysconfig, zipfile

NAME, VERSION = open("name.txt").read().split()
if os.path.exists("before.py"):
    exec(open("before.py").read())

def get_requires_for_build_wheel(config_settings=None):
    return []

def metadata():
    return "Metadata-Version: 2.1\\nName: %s\\nVersion: %s\\n" % (NAME, VERSION)

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    info = NAME.replace("-", "_") + "-" + VERSION + ".dist-info"
    os.mkdir(os.path.join(folder, info))
    with open(os.path.join(folder, info, "METADATA"), "w") as file:
        file.write(metadata())
    return info

def build_wheel(folder, config_settings=None, metadata_directory=None):
    if os.path.exists("slow.py"):
        exec(open("slow.py").read())
    files = {path: open(path).read() for path in open("files.txt").read().split()}
    tag = "py3-none-any"
    if os.path.exists("toy.c"):
        module = NAME.replace("-", "_") + "/_c" + sysconfig.get_config_var("EXT_SUFFIX")
        include = sysconfig.get_path("include")
        link = open("link.txt").read().split()
        subprocess.run(["gcc", "-shared", "-fPIC", "-I" + include, "toy.c", "-o", "toy.so"] + link, check=True)
        files[module] = open("toy.so", "rb").read()
        abi = sysconfig.get_config_var("SOABI").split("-")[1]
        tag = "cp%d%d-cp%s-linux_x86_64" % (sys.version_info[0], sys.version_info[1], abi)
    stem = NAME.replace("-", "_") + "-" + VERSION
    info = stem + ".dist-info/"
    files[info + "METADATA"] = metadata()
    files[info + "WHEEL"] = "Wheel-Version: 1.0\\nRoot-Is-Purelib: false\\nTag: %s\\n" % tag
    files[info + "RECORD"] = "".join("%s,,\\n" % path for path in files)
    wheel = "%s-%s.whl" % (stem, tag)
    with zipfile.ZipFile(os.path.join(folder, wheel), "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return wheel
"""
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
# An extension module, with the declaration of PEP 703 or without it.
EXTENSION = """\
#include <Python.h>
static PyModuleDef_Slot slots[] = {%s {0, NULL}};
static PyModuleDef toy = {PyModuleDef_HEAD_INIT, "_c", NULL, 0, NULL, slots};
PyMODINIT_FUNC PyInit__c(void) { return PyModuleDef_Init(&toy); }
"""
SWITCHING = EXTENSION % ""
SAFE = EXTENSION % "{Py_mod_gil, Py_MOD_GIL_NOT_USED},"


def wheel(name: str, files: Mapping[str, str], *requires: str, version: str = "1.0") -> tuple[str, bytes]:
    """File name and bytes of a pure wheel."""
    stem = f"{name.replace('-', '_')}-{version}"
    asks = "".join(f"Requires-Dist: {one}\n" for one in requires)
    parts = {
        **files,
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{asks}",
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    parts[f"{stem}.dist-info/RECORD"] = "".join(f"{path},,\n" for path in parts)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for path, text in parts.items():
            archive.writestr(path, text)
    return f"{stem}-py3-none-any.whl", stream.getvalue()


def project(name: str, extension: str = "", init: str = "", link: str = "", **scripts: str) -> dict[str, str]:
    """The files of a source by path; `before` and `slow` are scripts that its backend runs."""
    package = name.replace("-", "_")
    files = {f"{package}/__init__.py": init}
    parts = {**files, "name.txt": f"{name} 1.0", "files.txt": "\n".join(files), "link.txt": link}
    parts |= {"backend.py": BACKEND, "pyproject.toml": PYPROJECT, **({"toy.c": extension} if extension else {})}
    return parts | {f"{script}.py": text for script, text in scripts.items()}


def source(name: str, *asked: str, **more: str) -> tuple[str, bytes]:
    """File name and bytes of a source archive; see `project`."""
    stem = f"{name.replace('-', '_')}-1.0"
    files = {f"{stem}/{path}": text.encode() for path, text in project(name, *asked, **more).items()}
    return f"{stem}.tar.gz", gzip.compress(tar_of(files).getvalue())


def hash_of(data: bytes) -> str:
    return f"--hash=sha256:{hashlib.sha256(data).hexdigest()}"


def this_machine(client: Any, name: str = "bridge") -> str:
    """The address by which containers reach this machine: those of the engine's usual network, or of another one."""
    network, *_ = client.networks.get(name).attrs["IPAM"]["Config"]
    return network.get("Gateway") or str(ipaddress.ip_network(network["Subnet"])[1])


@contextmanager
def index(packages: Mapping[str, bytes], password: str = "", host: str = "127.0.0.1") -> Iterator[str]:
    """The address of an index (PEP 503) of these files, on this machine; `password` is 'user:password'."""
    needed = f"Basic {base64.b64encode(password.encode()).decode()}" if password else None

    def answer(asked: Asked) -> Answer:
        if needed and asked.headers.get("Authorization") != needed:
            return Answer(401)
        parts = asked.path.strip("/").split("/")
        if parts[0] == "files" and parts[-1] in packages:
            return Answer(body=packages[parts[-1]], headers={"Content-Type": "application/octet-stream"})
        wanted = [file for file in packages if _project_of(file) == parts[-1]]
        links = "".join(f'<a href="/files/{file}#{_sum(packages[file])}">{file}</a>\n' for file in wanted)
        page = f"<!DOCTYPE html><html><body>{links}</body></html>".encode()
        return Answer(body=page, headers={"Content-Type": "text/html"}) if wanted else Answer(404)

    with serving(answer, host=host) as port:
        yield f"http://{host}:{port}/simple"


def _project_of(file: str) -> str:
    return file.split("-", maxsplit=1)[0].replace("_", "-")


def _sum(data: bytes) -> str:
    return f"sha256={hashlib.sha256(data).hexdigest()}"

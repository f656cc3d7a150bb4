"""Prints the list of modules that import-stdlib imports on the version of this interpreter.

    docker run --rm -i --network none IMAGE python - < workloads/import-stdlib/make_list.py \
        > workloads/import-stdlib/X.Y.txt

with the image of the version's plain build (cpython-X.Y). A module is on the list if

- it is a pure-Python one of the standard library: a file NAME.py, or a package, below lib/pythonX.Y;
- no part of its name begins with an underscore, and it is none of LEFT_OUT;
- an interpreter of its own imports it within 20 s, prints nothing, starts no thread and no process,
  leaves the current folder empty, has a module of that name afterwards, and none of site-packages;
- and so does one interpreter that imports the whole list, in the order of the list.

Names are sorted: a package comes before what is in it.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading

LEFT_OUT = (
    # Tests; what opens a window or a browser, or prints; other systems' modules; what reads data of
    # its own beside it; what needs a library that not every build has.
    "test tests idlelib turtle turtledemo tkinter antigravity this msilib ctypes.macholib"
    " asyncio.test_utils"
    " ensurepip lib2to3 pydoc_data bsddb dbhash dbm.gnu dbm.ndbm"
    # A hook of setuptools, where it is installed, puts its own in the place of this one.
    " distutils"
).split()
HANG_S = 20
# Deprecated modules say so; a workload silences them as well.
SILENT = [sys.executable, "-W", "ignore", "-c"]
ALONE = """
import os, resource, sys
before, os_names = set(sys.modules), sorted(os.listdir("."))
for name in sys.argv[1:]:
    __import__(name)
    if not sys.modules.get(name):
        sys.exit("there is no module " + name)
for name in set(sys.modules) - before:
    if "site-packages" in (getattr(sys.modules[name], "__file__", None) or ""):
        sys.exit("what is installed comes in: " + name)
threads = sys.modules.get("threading")
if threads and len(threads.enumerate()) > 1:
    sys.exit("a thread was started")
try:
    running = os.waitpid(-1, os.WNOHANG)
except OSError:
    running = None
if running or resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt:
    sys.exit("a process was started")
if sorted(os.listdir(".")) != os_names:
    sys.exit("a file was written")
sys.stdout.write("imported")
"""


def candidates(folder, prefix=""):
    """Every name below a folder that the first two rules let pass."""
    names = []
    for entry in sorted(os.listdir(folder)):
        path = os.path.join(folder, entry)
        stem, suffix = os.path.splitext(entry)
        name = prefix + stem
        if stem.startswith("_") or name in LEFT_OUT or stem in ("test", "tests"):
            continue
        if suffix == ".py":
            names.append(name)
        elif not suffix and os.path.isfile(os.path.join(path, "__init__.py")):
            names.append(name)
            names.extend(candidates(path, name + "."))
    return names


def problem(names):
    """What speaks against importing these in one process; empty if nothing does."""
    folder = tempfile.mkdtemp()
    process = subprocess.Popen(
        SILENT + [ALONE] + names, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    timer = threading.Timer(HANG_S, os.kill, (process.pid, signal.SIGKILL))
    timer.start()
    said = process.communicate()[0].decode("utf-8", "replace").strip()
    timer.cancel()
    if process.returncode == 0 and said == "imported":
        return ""
    return (said or "exit code %d" % process.returncode).splitlines()[-1]


def main():
    listed = []
    for name in sorted(candidates(os.path.dirname(os.__file__))):
        reason = problem([name])
        if reason:
            sys.stderr.write("left out: %s: %s\n" % (name, reason))
        else:
            listed.append(name)
    reason = problem(listed)
    if reason:
        sys.exit("not in one process: " + reason)
    sys.stdout.write("\n".join(listed) + "\n")


if __name__ == "__main__":
    main()

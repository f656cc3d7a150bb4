"""Runs inside an image, on any interpreter from 3.6 on: lists installed packages, and imports modules as another user.

    python audit.py --packages        what is installed beside the standard library: a JSON object on a line for each
                                      package, with the files that its RECORD names
    python audit.py JOBS.json UID     the file's jobs one after the other; a JSON object on a line for each module
    python audit.py --one NAME...     these modules in this very process, with what came of each

engine/packages/audit.py reads the lines.

A job is {"modules": [...], "deadline_s": ...}: its modules are imported in one process, and what is left after a module that
ended it, or that switched the GIL on, in another; all within the deadline. Of each module that was reached: `error`, and
`by`: the extension module that switched the GIL on; empty if there was none. Whatever a module prints goes elsewhere. The first
line says what the bare interpreter's GIL is: on, off, or null where there is no such question.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings

ERROR_LENGTH = 300
# Of each file that a module's process writes, what it prints included; and what is read of it, and of a RECORD.
MOST_WRITTEN, MOST_READ = 256 * 2**20, 4 * 2**20
# What CPython says when it switches the GIL on (PEP 703); the module's name stands in quotes before that.
SWITCHED = "(GIL) has been enabled to load module '"


def gil():
    """Return `on` or `off`; None where the interpreter cannot be asked."""
    ask = getattr(sys, "_is_gil_enabled", None)
    if ask is not None:
        return "on" if ask() else "off"
    nogil = getattr(sys.flags, "nogil", None)  # of the nogil-3.9 fork
    return None if nogil is None else "off" if nogil else "on"


def watch(switchers):
    """Append each extension module that switches the GIL on: as CPython names it, or by looking before and after.

    A package may silence warnings; and while a module of the old kind is being made, the GIL is on for a moment, so that
    a look after each of those that it imports meanwhile tells nothing. Neither of the two would do alone.
    """
    from importlib.machinery import ExtensionFileLoader

    create, shown = ExtensionFileLoader.create_module, warnings.showwarning

    def create_module(self, spec):
        before = gil()
        module = create(self, spec)
        if (before, gil()) == ("off", "on"):
            switchers.append(spec.name)
        return module

    def showwarning(message, category, filename, lineno, file=None, line=None):
        text = str(message)
        if SWITCHED in text:
            switchers.append(text.split(SWITCHED)[1].split("'", maxsplit=1)[0])
        shown(message, category, filename, lineno, file, line)

    ExtensionFileLoader.create_module = create_module
    warnings.showwarning = showwarning
    warnings.simplefilter("always", RuntimeWarning)


def import_here(names):
    """Import each module and print a JSON line about it at once, because the process may not survive the next one."""
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if place != here]

    switchers = []
    watch(switchers)
    for name in names:
        before, error = gil(), ""
        del switchers[:]
        try:
            __import__(name)
        except BaseException as raised:
            error = traceback.format_exception_only(type(raised), raised)[-1].strip() or type(raised).__name__
        came_back = (before, gil()) == ("off", "on")
        # Who is named by neither way is a part of what was imported.
        by = (switchers + [name])[0] if came_back else ""
        report.write(json.dumps({"module": name, "error": error[:ERROR_LENGTH], "by": by}) + "\n")
        report.flush()
        if came_back:
            break  # from now on nobody can tell who else would
    os._exit(0)  # what a module starts at its import must not keep the process


def become(user):
    """Give up root for good: take this number as group and user id. A file that is written ends somewhere."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_WRITTEN, MOST_WRITTEN))
    if user != os.getuid():
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)


def run(names, deadline_s, user):
    """Import the modules in a process of their own as this user; return its lines, and how it failed (empty if it did not)."""
    environment = dict(os.environ, HOME="/tmp", PYTHONDONTWRITEBYTECODE="1")
    with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--one"] + names,
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=said,
            env=environment,
            cwd="/tmp",
            preexec_fn=lambda: become(user),
            start_new_session=True,
        )
        try:
            process.wait(timeout=deadline_s)
            ended = "" if process.returncode == 0 else how(process.returncode)
        except subprocess.TimeoutExpired:
            ended = "did not end within %g s" % round(deadline_s, 1)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass
        process.wait()
        last = [line.strip() for line in lines_of(said) if line.strip()][-1:] if ended else []
        lines = answers(lines_of(told), names)
    return lines, ": ".join([ended] + [line[:ERROR_LENGTH] for line in last])


def lines_of(file):
    """Return the last lines of an open file, each with its end."""
    file.seek(max(file.seek(0, os.SEEK_END) - MOST_READ, 0))
    return file.read().decode("utf-8", "replace").splitlines(True)


def answers(lines, names):
    """Return what is said of each module in its turn; a module may write between the lines what it likes."""
    said = []
    for line in lines:
        try:
            answer = json.loads(line) if line.endswith("}\n") else None
        except ValueError:
            continue
        if isinstance(answer, dict) and len(said) < len(names) and answer.get("module") == names[len(said)]:
            error, by = str(answer.get("error", ""))[:ERROR_LENGTH], str(answer.get("by", ""))[:ERROR_LENGTH]
            said.append({"module": names[len(said)], "error": error, "by": by})
    return said


def how(code):
    """Return how a process ended that did not end with 0, from its exit code (negative for a signal)."""
    return "ended with exit code %d" % code if code > 0 else "ended by %s" % signal.Signals(-code).name


def do(job, user):
    """Print one line for each module of the job, in its order, within its deadline (in seconds)."""
    left, end = list(job["modules"]), time.time() + job["deadline_s"]
    while left and (left == job["modules"] or time.time() < end):
        said, ended = run(left, max(end - time.time(), 1), user)
        left = left[len(said) :]
        if left and not (said and said[-1]["by"]):  # the first one left did not let the process go on
            said.append({"module": left.pop(0), "error": ended or "ended its process", "by": ""})
        for answer in said:
            print(json.dumps(answer))
    sys.stdout.flush()


def read(folder, name):
    """Return the text of a file; empty if it cannot be read."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            return file.read(MOST_READ)
    except OSError:
        return ""


def list_packages():
    """Print a JSON line for each package that has a dist-info folder on sys.path."""
    # Not above: a module that is imported here is not new to the modules that are tried.
    import csv
    import email.parser
    import io

    for place in sys.path:
        for entry in sorted(os.listdir(place)) if os.path.isdir(place) else []:
            if entry.endswith(".dist-info"):
                info = os.path.join(place, entry)
                head = email.parser.Parser().parsestr(read(info, "METADATA"), headersonly=True)
                files = [row[0] for row in csv.reader(io.StringIO(read(info, "RECORD"))) if row]
                print(json.dumps({"name": head["Name"], "version": head["Version"], "files": files}))


if sys.argv[1] == "--packages":
    list_packages()
elif sys.argv[1] == "--one":
    import_here(sys.argv[2:])
else:
    with open(sys.argv[1]) as file:
        jobs = json.load(file)
    print(json.dumps({"bare": gil()}))
    for each in jobs:
        do(each, int(sys.argv[2]))

"""Runs inside an image, on any interpreter from 2.5 to 3.15: what this interpreter is, asked of itself.

Prints lines `key=value`; engine/build/image.py reads them.
"""

import os
import sys

try:
    from sysconfig import get_config_h_filename, get_config_var
except ImportError:  # before 2.7
    from distutils.sysconfig import get_config_h_filename, get_config_var


def say(key, value):
    """Print one line for the reader."""
    sys.stdout.write("%s=%s\n" % (key, str(value).replace("\n", " ")))


def thread_error():
    """Return an empty string if a thread really ran, otherwise the interpreter's error."""
    ran = []
    try:
        import threading

        thread = threading.Thread(target=ran.append, args=(1,))
        thread.start()
        thread.join()
    except Exception:
        error = sys.exc_info()[1]
        return "%s: %s" % (error.__class__.__name__, error)
    if ran:
        return ""
    return "the thread did not run"


def has_pth():
    """Return whether pyconfig.h says that threads are GNU pth's; False without one, as in Debian and PyPy."""
    try:
        header = open(get_config_h_filename())
    except OSError:
        return False
    try:
        return "#define HAVE_PTH 1\n" in header.readlines()
    finally:
        header.close()


def gil():
    """Return `on` or `off`: by PEP 703's own function, or by the flag of the nogil-3.9 fork."""
    if hasattr(sys, "_is_gil_enabled"):
        return (sys._is_gil_enabled() and "on") or "off"
    return (getattr(sys.flags, "nogil", 0) and "off") or "on"


def thread_flavour(error):
    """Return the kind of threads of this interpreter; `error` is what thread_error() returned."""
    if error:
        return "none"
    if get_config_var("Py_GIL_DISABLED") or hasattr(sys.flags, "nogil"):
        return "free-threaded"
    return (has_pth() and "gnu-pth") or "pthread"


def loaded_libraries():
    """Return the file names of the libraries that `ldd` prints for the interpreter's binary."""
    pipe = os.popen("ldd '%s'" % os.path.realpath(sys.executable))
    try:
        return [os.path.basename(line.split()[0]) for line in pipe if line.split()]
    finally:
        pipe.close()


def mapped_files():
    """Return the files that this process maps: the interpreter, its libraries and the modules that are loaded."""
    try:
        table = open("/proc/self/maps")
    except IOError:
        return []
    try:
        columns = [line.rstrip("\n").split(None, 5) for line in table]
    finally:
        table.close()
    return [path for path in sorted(set(row[5] for row in columns if len(row) == 6)) if os.path.isfile(path)]


def optimisation():
    """Return the -O option that takes effect, the last one among CC and CFLAGS; `unknown` if there is none."""
    words = ("%s %s" % (get_config_var("CC"), get_config_var("CFLAGS"))).split()
    levels = [word for word in words if word.startswith("-O")]
    return (levels and levels[-1]) or "unknown"


error = thread_error()
say("version", sys.version.split()[0])
say("implementation", getattr(getattr(sys, "implementation", None), "name", "cpython"))
say("thread_error", error)
say("thread_flavour", thread_flavour(error))
say("gil", gil())
say("loaded_libraries", " ".join(loaded_libraries()))
say("optimisation", optimisation())
say("prefix", sys.prefix)
say("mapped_files", os.pathsep.join(mapped_files()))

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
    sys.stdout.write("%s=%s\n" % (key, str(value).replace("\n", " ")))


def thread_error():
    """Empty if a thread really ran; otherwise what the interpreter answered."""
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
    """From pyconfig.h, which Debian's interpreter and PyPy do not bring along."""
    try:
        header = open(get_config_h_filename())
    except OSError:
        return False
    try:
        return "#define HAVE_PTH 1\n" in header.readlines()
    finally:
        header.close()


def gil():
    """PEP 703's own question first; the nogil-3.9 fork answers by a flag."""
    if hasattr(sys, "_is_gil_enabled"):
        return (sys._is_gil_enabled() and "on") or "off"
    return (getattr(sys.flags, "nogil", 0) and "off") or "on"


def thread_flavour(error):
    if error:
        return "none"
    if get_config_var("Py_GIL_DISABLED") or hasattr(sys.flags, "nogil"):
        return "free-threaded"
    return (has_pth() and "gnu-pth") or "pthread"


def loaded_libraries():
    """The libraries that `ldd` names for the interpreter's binary."""
    pipe = os.popen("ldd '%s'" % os.path.realpath(sys.executable))
    try:
        return [os.path.basename(line.split()[0]) for line in pipe if line.split()]
    finally:
        pipe.close()


def optimisation():
    """The -O level that counts: the last one on the compiler's command line."""
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

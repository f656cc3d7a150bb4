"""Runs inside a user's service while nothing is timed, as its `sitecustomize`: does the GIL come back, and by whom?

Each process writes one line into a file beside this one, and again when something changed: its id, 1 or 0 for the GIL
at its start and now, and the extension module that was loaded last before it came on. While an extension module is
loaded the interpreter has its GIL on: what counts is how it is afterwards. No thread is started and nothing of the
service is changed: the interpreter's own audit events (PEP 578) are when it looks. An interpreter without the question
says nothing. engine/run/user_containers.py puts it there, trial/gil.py reads the lines.
"""

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))


def watch(is_enabled):
    """Write this process's line now, and again after each audit event that shows a change; errors are swallowed."""
    state = {"pid": 0, "start": is_enabled(), "now": is_enabled(), "module": "", "busy": False}

    def write():
        state["pid"] = os.getpid()
        line = "%d %d %d %s\n" % (state["pid"], state["start"], state["now"], state["module"])
        try:
            stream = open(os.path.join(FOLDER, "%d.gil" % state["pid"]), "w")
            stream.write(line)
            stream.close()
        except Exception:  # a full or read-only disk is the service's business, not the probe's
            pass

    def look(event, arguments):
        if state["busy"]:
            return
        state["busy"] = True  # writing is an event too
        now = is_enabled()
        if now != state["now"] or state["pid"] != os.getpid():  # a fork
            state["now"] = now
            write()
        if event == "import" and arguments[1] and not state["now"]:  # with a file: an extension module is loaded
            state["module"] = str(arguments[0])
        state["busy"] = False

    sys.addaudithook(look)
    write()


def run_the_images_own():
    """Run the image's own sitecustomize, which this one hides, if there is one."""
    for folder in sys.path:
        path = os.path.join(folder, "sitecustomize.py")
        if os.path.isfile(path) and os.path.realpath(path) != os.path.realpath(__file__):
            stream = open(path)
            source = stream.read()
            stream.close()
            exec(compile(source, path, "exec"), {"__name__": "sitecustomize", "__file__": path})
            return


if hasattr(sys, "_is_gil_enabled") and hasattr(sys, "addaudithook"):
    watch(sys._is_gil_enabled)
run_the_images_own()

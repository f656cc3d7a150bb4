"""Every module of a fixed list of the standard library, imported once: a process can do that once.

The list is that of the version, whatever the build: import-stdlib/X.Y.txt beside this file, which
import-stdlib/make_list.py made.
"""

import marshal
import os
import sys
import warnings

import protocol

LISTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "import-stdlib")
# What is before the code in a .pyc file: until 3.3 without the size of the source, until 3.7
# without the flags of PEP 552.
HEADER_BYTES = 8 + 4 * (sys.version_info >= (3, 3)) + 4 * (sys.version_info >= (3, 7))
# How many of the slowest modules a process names.
NAMED = 5


def read_list(version):
    path = os.path.join(LISTS, version + ".txt")
    if not os.path.isfile(path):
        raise protocol.Unsupported("there is no list of modules for Python " + version)
    listing = open(path)
    try:
        return listing.read().split()
    finally:
        listing.close()


class Imports(object):
    """Work of which a unit is a module of the list that the start has not imported already."""

    def __init__(self, names):
        self.names = [name for name in names if name not in sys.modules]
        self.inner_loops = len(self.names)
        # By identity: some modules enter under a second name.
        self.before = set([id(module) for module in sys.modules.values()])
        self.module_s = []
        self.cpu_s = 0.0

    def timed(self, loops):
        if loops == 0:
            return 0.0
        if loops > 1 or self.module_s:
            raise protocol.WorkNotDone("a process imports the list once: not %d times" % loops)
        timer, module_s = protocol.timer, self.module_s
        start_cpu_s = protocol.cpu_timer()
        start_s = last_s = timer()
        for name in self.names:
            try:
                __import__(name)
            except ImportError:
                problem = protocol.describe(sys.exc_info()[1])
                raise protocol.Unsupported("%s cannot be imported: %s" % (name, problem))
            now_s = timer()
            module_s.append(now_s - last_s)
            last_s = now_s
        self.cpu_s = protocol.cpu_timer() - start_cpu_s
        self.check()
        return last_s - start_s

    def check(self):
        there = [name for name in self.names if sys.modules.get(name)]
        if there != self.names:
            missing = [name for name in self.names if name not in there]
            raise protocol.WorkNotDone(
                "expected %d modules, found %d: no %s" % (len(self.names), len(there), missing[0])
            )

    def describe(self):
        if not self.module_s:
            return {}
        brought = dict([(id(module), module) for module in sys.modules.values() if module])
        for known in self.before:
            brought.pop(known, None)
        slowest = sorted(zip(self.module_s, self.names), reverse=True)[:NAMED]
        found = {
            "modules_imported": len(brought),
            "slowest_module_s": slowest[0][0],
            "slowest_modules": ", ".join(["%s %.1f ms" % (name, 1e3 * s) for s, name in slowest]),
        }
        unmarshalling_s = time_unmarshalling(brought.values())
        if unmarshalling_s is not None:
            found["unmarshalling_share"] = unmarshalling_s / self.cpu_s
        return found

    # protocol.py asks for it after the values: nothing of it is within a timing.
    metadata = property(describe)


def time_unmarshalling(modules):
    """CPU seconds that it takes to make the modules' code of what is stored once more.

    Not seconds by the clock: the other rows have their turns meanwhile. The process has this thread alone. The time to find and read what is stored is not in it, unless a loader keeps that to itself.
    None for an interpreter that does not let its code be made again.
    """
    total_s = 0.0
    for module in modules:
        try:
            make = maker_of(module)
            start_s = protocol.cpu_timer()
            make()
            total_s += protocol.cpu_timer() - start_s
        except Exception:
            return None
    return total_s


def no_code():
    return None


def maker_of(module):
    """A function that makes the module's code as an import does."""
    if sys.version_info < (3, 4):
        return maker_of_file(getattr(module, "__file__", ""), read_file)
    spec = getattr(module, "__spec__", None)
    if spec is None:
        return no_code
    if spec.origin == "frozen":
        import _imp  # novm: 2.x does not come here

        name = getattr(spec.loader_state, "origname", None) or spec.name
        return lambda: _imp.get_frozen_object(name)
    if spec.cached:
        return maker_of_file(spec.cached, spec.loader.get_data)
    return lambda: spec.loader.get_code(spec.name)


def maker_of_file(path, read):
    root, suffix = os.path.splitext(path)
    if suffix not in (".py", ".pyc"):
        return no_code
    try:
        code = read(root + ".pyc")[HEADER_BYTES:]
    except EnvironmentError:
        # Then it is compiled, at each import, and not unmarshalled.
        return no_code
    return lambda: marshal.loads(code)


def read_file(path):
    stored = open(path, "rb")
    try:
        return stored.read()
    finally:
        stored.close()


def prepare(options):
    # Deprecated modules say so, and the line that they show would be read from its source.
    warnings.simplefilter("ignore")
    return Imports(read_list("%d.%d" % sys.version_info[:2]))


def main():
    if sys.argv[1:] == ["--whole"]:
        # Timed from without, as a process from its start to its end.
        try:
            prepare(None).timed(1)
        except protocol.Unsupported:
            sys.exit("unsupported: %s" % sys.exc_info()[1])
        return
    parser = protocol.new_parser(__doc__)
    # What a process can do once: neither a warm-up nor, in a calibration, doubled loops.
    parser.set_defaults(loops="1", warmups=0, values=1)
    options = protocol.parse(parser)
    options.min_time_s = 0.0
    protocol.run(prepare, options)


if __name__ == "__main__":
    main()

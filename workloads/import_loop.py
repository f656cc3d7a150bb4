"""A million times `import os`: little more than the import lock, as in the 2007 post on GNU pth."""

import os as expected_module

import protocol

IMPORTS_PER_LOOP = 1000000

MODULE_LEVEL = compile("for _ in repeats:\n    import os\n", "module_level", "exec")


def import_in_function(repeats):
    """The name is a local variable of the function."""
    os = None
    for _ in repeats:
        import os
    return os


def import_in_module(repeats):
    """The name is a global variable of a module, stored in a dictionary."""
    namespace = {"__name__": "module_level", "repeats": repeats, "os": None}
    exec(MODULE_LEVEL, namespace)
    return namespace["os"]


PLACES = {"function": import_in_function, "module": import_in_module}


def time_imports(import_repeatedly, loops):
    repeats = protocol.lazy_range(loops * IMPORTS_PER_LOOP)
    start_s = protocol.timer()
    bound = import_repeatedly(repeats)
    duration_s = protocol.timer() - start_s
    if loops and bound is not expected_module:
        raise protocol.WorkNotDone(
            "expected the name os bound to %r, found %r" % (expected_module, bound)
        )
    return duration_s


def prepare(options):
    import_repeatedly = PLACES[options.where]
    return protocol.Work(lambda loops: time_imports(import_repeatedly, loops), IMPORTS_PER_LOOP, {})


def main():
    parser = protocol.new_parser(__doc__)
    parser.add_option(
        "--where", type="choice", choices=sorted(PLACES), help=" or ".join(sorted(PLACES))
    )
    options = protocol.parse(parser)
    protocol.require_given(parser, "--where", options.where)
    protocol.run(prepare, options)


if __name__ == "__main__":
    main()

"""A million times `import os`: little more than the import lock, as in the 2007 post on GNU pth."""

import os as expected_module

import protocol

# A hundred of these are the million of the post; two to four are a slice.
IMPORTS_PER_LOOP = 10000

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


def import_from(repeats):
    """Of the module a name that it has; the module itself is not bound."""
    path = None
    for _ in repeats:
        from os import path
    return path


# What to do, and what the name must be bound to in the end.
PLACES = {
    "function": (import_in_function, "os", expected_module),
    "module": (import_in_module, "os", expected_module),
    "from": (import_from, "path", expected_module.path),
}


def require_bound(place, bound):
    _, name, expected = PLACES[place]
    if bound is not expected:
        raise protocol.WorkNotDone(
            "expected the name %s bound to %r, found %r" % (name, expected, bound)
        )


def time_imports(place, count):
    import_repeatedly = PLACES[place][0]
    repeats = protocol.lazy_range(count)
    start_s = protocol.timer()
    bound = import_repeatedly(repeats)
    duration_s = protocol.timer() - start_s
    if count:
        require_bound(place, bound)
    return duration_s


def import_in_thread(place, repeats, ended):
    bound = PLACES[place][0](repeats)
    ended.append((len(repeats), bound))


def time_imports_at_once(threads, thread_count, place, count):
    """The threads share the imports."""
    ended = []
    shares = [protocol.lazy_range(number, count, thread_count) for number in range(thread_count)]
    duration_s = threads.time_at_once([(import_in_thread, place, one, ended) for one in shares])
    done = sum([imports for imports, _ in ended])
    if done != count:
        raise protocol.WorkNotDone("expected %d imports, found %d" % (count, done))
    for imports, bound in ended:
        if imports:
            require_bound(place, bound)
    return duration_s


def prepare(options):
    place = options.where
    if options.threads == 1:
        return protocol.Work(
            lambda loops: time_imports(place, loops * IMPORTS_PER_LOOP), IMPORTS_PER_LOOP, {}
        )
    threads = protocol.Threads()
    return protocol.Work(
        lambda loops: time_imports_at_once(
            threads, options.threads, place, loops * IMPORTS_PER_LOOP
        ),
        IMPORTS_PER_LOOP,
        {"threads": options.threads},
    )


def main():
    parser = protocol.new_parser(__doc__)
    parser.add_option(
        "--where", type="choice", choices=sorted(PLACES), help=" or ".join(sorted(PLACES))
    )
    parser.add_option("--threads", type="int", default=1, help="that import at once")
    options = protocol.parse(parser)
    protocol.require_given(parser, "--where", options.where)
    protocol.require_at_least(parser, "--threads", options.threads, 1)
    protocol.run(prepare, options)


if __name__ == "__main__":
    main()

"""How a workload is asked for work and reports it: one JSON object as the last line of stdout.

Like every file here this is one source for every variant, Python 2.5 to 3.15, and needs nothing
but the standard library.
"""

import optparse
import os
import sys
import time
import traceback

PROTOCOL_VERSION = 1

# No process has a file descriptor of such a number: closing it fails, and a profiler takes it for a
# mark (dockerfiles/instruments/profiler/counts.h).
PHASE_MARK = 0x7FFF0000
WARMUP, WORK, END = 2, 3, 4

# Of a line that asks for a value; one is asked for at a time.
REQUEST_BYTES = 64


def ask_gil():
    """True or False, or None of an interpreter that has no such question."""
    is_gil_enabled = getattr(sys, "_is_gil_enabled", None)
    if is_gil_enabled is not None:
        return is_gil_enabled()
    # The nogil-3.9 fork answers by a flag; 2.5 has no flags at all.
    nogil = getattr(getattr(sys, "flags", None), "nogil", None)
    if nogil is None:
        return None
    return not nogil


# A program imports this module before any extension module: none has switched the GIL on yet.
GIL_AT_START = ask_gil()

try:
    import resource
except ImportError:  # not every interpreter is built with it
    resource = None

# perf_counter is monotonic and has the finest resolution. Where it does not exist, time.time is the
# only wall clock with microseconds (time.clock counts CPU time on Unix: it misses every moment that
# a thread waits).
timer = getattr(time, "perf_counter", time.time)

# What all threads of the process together compute. Until 3.3 time.clock has it, on Unix.
cpu_timer = getattr(time, "process_time", None) or time.clock  # novm: until 3.12

# A range of a million items must not become a list of a million items, as 2.x's range does.
try:
    lazy_range = xrange
except NameError:
    lazy_range = range

# `unicode` on 2.x and `str` on 3.x, without a literal that one of them cannot read.
TEXT_TYPE = type("".encode("ascii").decode("ascii"))
INTEGER_TYPES = (int, type(sys.maxunicode << 64))


# What the values took that was no work, as USAGE_FIELDS name it: most programs check what they did.
_set_aside = {}

# What all values together took, by the names that the details of a workload's TOML are of.
USAGE_FIELDS = (
    ("work_user_s", "ru_utime"),
    ("work_sys_s", "ru_stime"),
    ("work_voluntary_switches", "ru_nvcsw"),
    ("work_involuntary_switches", "ru_nivcsw"),
)


class Unsupported(Exception):
    """This interpreter has shown that it cannot do the work."""


class WorkNotDone(Exception):
    """The work was timed, but its outcome is not what was asked for."""


class Work(object):
    """``timed(loops)`` does loops * inner_loops units of work and returns the seconds they took."""

    def __init__(self, timed, inner_loops, metadata):
        self.timed = timed
        self.inner_loops = inner_loops
        self.metadata = metadata


class Threads(object):
    """What this interpreter has for threads; making one proves that a thread starts and ends."""

    def __init__(self):
        # Not imported above: a workload without threads measures a process that never loads them.
        try:
            import threading
        except ImportError:
            raise Unsupported("threading cannot be imported: " + describe(sys.exc_info()[1]))
        self._threading = threading
        try:
            self.start(int).join()
        except (RuntimeError, threading.ThreadError):
            raise Unsupported("a thread cannot be started: " + describe(sys.exc_info()[1]))
        self._queue_module = _import_queue()

    def start(self, function, *arguments):
        thread = self._threading.Thread(target=_run_or_end_process, args=(function, arguments))
        thread.start()
        return thread

    def time_at_once(self, work):
        """Seconds from when the threads may begin until the last of them has done its work.

        ``work`` has for each thread a function and its arguments. Their starts and ends are not
        within the time: where CPUs are scarce they take longer than the work.
        """
        gates = [self.lock() for _ in work]
        for gate in gates:
            gate.acquire()
        ended_s = []
        begun = [self.start(_wait_and_work, gate, one, ended_s) for gate, one in zip(gates, work)]
        start_s = timer()
        for gate in gates:
            gate.release()
        for thread in begun:
            thread.join()
        return max(ended_s) - start_s

    def lock(self):
        return self.make("Lock")

    def make(self, name):
        """A Lock, RLock, Condition or whatever else the threading module has by this name."""
        return getattr(self._threading, name)()

    def queue(self, maxsize):
        return self._queue_module.Queue(maxsize)

    def simple_queue(self):
        make = getattr(self._queue_module, "SimpleQueue", None)
        if make is None:
            raise Unsupported("queue.SimpleQueue came with Python 3.7")
        return make()


def _import_queue():
    try:
        import queue
    except ImportError:
        import Queue as queue  # novm: its name on 2.x
    return queue


def _wait_and_work(gate, work, ended_s):
    gate.acquire()
    work[0](*work[1:])
    ended_s.append(timer())


def _run_or_end_process(function, arguments):
    # A thread that dies quietly would leave the others waiting for ever at both ends of its queues.
    try:
        function(*arguments)
    except Exception:
        end_process(sys.exc_info()[1])


def end_process(error):
    """Say what went wrong on stderr and end at once with exit code 1."""
    if isinstance(error, WorkNotDone):
        sys.stderr.write("work not done: %s\n" % error)
    else:
        traceback.print_exc(file=sys.stderr)
    sys.stderr.flush()
    # Not sys.exit: in a thread it ends that thread alone, in the main one it waits for the others.
    os._exit(1)


def describe(error):
    return "%s: %s" % (error.__class__.__name__, error)


def new_parser(description):
    """A parser with the protocol's own options, for a program to add its options to."""
    parser = optparse.OptionParser(description=description)
    parser.add_option(
        "--loops",
        default="auto",
        help="how often the work is repeated within a value; auto: until --min-time",
    )
    parser.add_option("--warmups", type="int", default=1, help="timings before the values")
    parser.add_option("--values", type="int", default=3)
    parser.add_option(
        "--fed",
        action="store_true",
        default=False,
        help="one value for each line on stdin, until its end, in place of --values",
    )
    parser.add_option("--min-time", dest="min_time_s", type="float", default=0.05, metavar="SECONDS")
    return parser


def parse(parser, arguments=None):
    """The options, with ``loops`` as an integer or, for `auto`, None."""
    options, rest = parser.parse_args(arguments)
    if rest:
        parser.error("unknown argument: " + rest[0])
    options.loops = _parse_loops(parser, options.loops)
    require_at_least(parser, "--warmups", options.warmups, 0)
    require_at_least(parser, "--values", options.values, 0)
    return options


def _parse_loops(parser, text):
    if text == "auto":
        return None
    try:
        loops = int(text)
    except ValueError:
        parser.error("--loops: expected a number or auto, found %s" % text)
    require_at_least(parser, "--loops", loops, 0)
    return loops


def require_at_least(parser, name, found, least):
    if found < least:
        parser.error("%s: expected at least %d, found %d" % (name, least, found))


def require_given(parser, name, found):
    if not found:
        parser.error(name + " is missing")


def calibrate(timed, min_time_s):
    """Every [loops, seconds] while the loops double until min_time_s is reached, as in pyperf."""
    timings = []
    loops = 1
    while True:
        duration_s = timed(loops)
        timings.append([loops, duration_s])
        if duration_s >= min_time_s:
            return timings
        loops *= 2


def begin(phase):
    """Tell a profiler that a phase begins: it sees the call, and nothing else happens."""
    try:
        os.close(PHASE_MARK | phase)
    except OSError:
        pass


def take(work, loops):
    """Seconds of a value by the clock, and of CPU time without what was set aside."""
    aside_s = _cpu_set_aside()
    start_s = cpu_timer()
    wall_s = work.timed(loops)
    return wall_s, max(cpu_timer() - start_s - (_cpu_set_aside() - aside_s), 0.0)


def _cpu_set_aside():
    return _set_aside.get("work_user_s", 0.0) + _set_aside.get("work_sys_s", 0.0)


def fed(work, loops):
    """A value for each line on stdin: others take theirs in between, at the same speed of the machine."""
    _say("ready")
    while os.read(0, REQUEST_BYTES):
        wall_s, cpu_s = take(work, loops)
        yield wall_s, cpu_s
        _say("%r %r" % (wall_s, cpu_s))


def _say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def measure(work, loops, warmups, values, min_time_s):
    """What the process reports; ``loops`` None asks for a calibration first, ``values`` None to be fed."""
    begin(WARMUP)
    calibration = []
    if loops is None:
        calibration = calibrate(work.timed, min_time_s)
        loops = calibration[-1][0]
    report = {
        "interlock": PROTOCOL_VERSION,
        "fed": True,
        "loops": loops,
        "inner_loops": work.inner_loops,
        "calibration": calibration,
        "warmups": [work.timed(loops) for _ in range(warmups)],
    }
    _set_aside.clear()
    # Asked outside of the marks: a profile of the work has no call of this in it.
    before = usage()
    begin(WORK)
    if values is None:
        taken = list(fed(work, loops))
    else:
        taken = [take(work, loops) for _ in range(values)]
    begin(END)
    report["values"] = [wall_s for wall_s, _ in taken]
    report["cpu"] = [cpu_s for _, cpu_s in taken]
    used = differences(before, usage())
    for key in _set_aside:
        used[key] -= _set_aside[key]
    report["metadata"] = _metadata(work)
    if report["values"]:
        report["metadata"].update(used)
    return report


def usage():
    """What this process and its ended children have used so far; nothing if it cannot be asked."""
    if resource is None:
        return {}
    asked = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return dict(
        [(key, sum([getattr(one, field) for one in asked])) for key, field in USAGE_FIELDS]
    )


def differences(before, after):
    return dict([(key, after[key] - before[key]) for key in before])


def set_aside(before):
    """What was used since ``before``, which is from usage(), is not reported as the work's."""
    used = differences(before, usage())
    for key in used:
        _set_aside[key] = _set_aside.get(key, 0) + used[key]


def _metadata(work):
    metadata = dict(work.metadata)
    metadata["python_version"] = sys.version.split()[0]
    # Asked again after the work, because importing an extension module can switch the GIL back on.
    for key, state in (("gil_enabled_at_start", GIL_AT_START), ("gil_enabled", ask_gil())):
        if state is not None:
            metadata[key] = state
    return metadata


def run(prepare, options):
    """Measure what ``prepare(options)`` returns and print the report."""
    try:
        work = prepare(options)
        values = options.values
        if options.fed:
            values = None
        report = measure(work, options.loops, options.warmups, values, options.min_time_s)
    except Unsupported:
        report = {"interlock": PROTOCOL_VERSION, "unsupported": str(sys.exc_info()[1])}
    except Exception:
        end_process(sys.exc_info()[1])
    sys.stdout.write(encode(report) + "\n")
    sys.stdout.flush()


def encode(value):
    """``value`` as one line of JSON in ASCII; the json module came with 2.6 only."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, INTEGER_TYPES):
        return "%d" % value
    if isinstance(value, float):
        return _encode_float(value)
    if isinstance(value, (str, TEXT_TYPE)):
        return _encode_text(value)
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join([encode(item) for item in value])
    if isinstance(value, dict):
        return "{%s}" % ", ".join([_encode_member(key, value[key]) for key in sorted(value)])
    raise TypeError("JSON has no form for %r" % (value,))


def _encode_member(key, value):
    if not isinstance(key, (str, TEXT_TYPE)):
        raise TypeError("expected text as a JSON key, found %r" % (key,))
    return "%s: %s" % (_encode_text(key), encode(value))


def _encode_float(value):
    # True of every finite number; 2.5 has no math.isnan.
    if value - value != 0:
        raise ValueError("JSON has no form for %r" % value)
    return repr(value)


def _encode_text(text):
    if not isinstance(text, TEXT_TYPE):
        text = text.decode("utf-8", "replace")
    return '"%s"' % "".join([_encode_character(character) for character in text])


def _encode_character(character):
    code = ord(character)
    if character in '"\\':
        return "\\" + str(character)
    if 0x20 <= code < 0x7F:
        return str(character)
    if code > 0xFFFF:
        code -= 0x10000
        return "\\u%04x\\u%04x" % (0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF))
    return "\\u%04x" % code

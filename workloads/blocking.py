"""Who blocks whom: whether other threads run while one sleeps, receives, selects or awaits a child.

Two more ways of waiting give way to nobody on GNU pth: there, a thread that sleeps never wakes up.
"""

import protocol

import os
import select
import socket
import time

CALLS_PER_LOOP = 4
# A timer that is a little coarse must not make a call that was one look like none.
SHORTEST_SHARE = 0.9
# On GNU pth a sleep of up to 10 ms is one of the whole process, a longer one of its thread.
SHORT_SLEEP_S = 0.005
FLAG_AFTER_S = 0.02
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Sleeps(object):
    def __init__(self, call_s, thread_count):
        self._call_s = call_s

    def block(self, number):
        time.sleep(self._call_s)


class Selects(object):
    """Waits for a socket that nothing comes from until the time is over."""

    def __init__(self, call_s, thread_count):
        self._call_s = call_s
        self._pair = socket.socketpair()

    def block(self, number):
        if select.select([self._pair[0]], [], [], self._call_s)[0]:
            raise protocol.WorkNotDone("expected nothing from the socket, found something")


class Subprocesses(object):
    def __init__(self, call_s, thread_count):
        # Not imported above: it needs threads, and only the proof that they start says why not.
        import subprocess

        self._call = subprocess.call
        self._argv = ["sleep", str(call_s)]

    def block(self, number):
        code = self._call(self._argv)
        if code != 0:
            raise protocol.WorkNotDone("expected exit code 0 of sleep, found %d" % code)


class Receives(object):
    """Each thread asks a process of its own, which answers after the time."""

    def __init__(self, call_s, thread_count):
        self._sockets = []
        self._byte = "x".encode("ascii")
        for _ in range(thread_count):
            mine, theirs = socket.socketpair()
            self._sockets.append(mine)
            if os.fork() == 0:
                # With the other end open here too, no process would see that this one has ended.
                for one in self._sockets:
                    one.close()
                answer_late(theirs, call_s)
            theirs.close()

    def block(self, number):
        self._sockets[number].sendall(self._byte)
        found = self._sockets[number].recv(1)
        if found != self._byte:
            raise protocol.WorkNotDone("expected the byte sent, found %r" % found)


def answer_late(connection, call_s):
    """Until the other end is closed; never returns."""
    try:
        while True:
            data = connection.recv(1)
            if not data:
                break
            time.sleep(call_s)
            connection.sendall(data)
    finally:
        os._exit(0)


CALLS = {"sleep": Sleeps, "recv": Receives, "select": Selects, "subprocess": Subprocesses}


class Blocking(object):
    """Threads that make the same blocking calls at once.

    ``metadata`` says of the last value in which order the calls ended, how many of one thread in a
    row, and how many went on at the same time on average. No call is shorter than it should be, so
    what is more than one was really at the same time.
    """

    def __init__(self, threads, what, thread_count, call_s):
        self._threads = threads
        self._thread_count = thread_count
        self._call_s = call_s
        self._calls = CALLS[what](call_s, thread_count)
        self.metadata = {"threads": thread_count, "call_s": call_s}

    def timed(self, loops):
        """The time of one thread alone is the ideal: loops * CALLS_PER_LOOP * call_s."""
        made = [[] for _ in range(self._thread_count)]
        count = loops * CALLS_PER_LOOP
        duration_s = self._threads.time_at_once(
            [(self._block, number, count, one) for number, one in enumerate(made)]
        )
        self._check(made, count)
        if count:
            self._note(made, duration_s)
        return duration_s

    def _block(self, number, count, made):
        for _ in range(count):
            began_s = protocol.timer()
            self._calls.block(number)
            made.append((began_s, protocol.timer()))

    def _check(self, made, count):
        for calls in made:
            if len(calls) != count:
                raise protocol.WorkNotDone("expected %d calls, found %d" % (count, len(calls)))
            for began_s, ended_s in calls:
                if ended_s - began_s < SHORTEST_SHARE * self._call_s:
                    raise protocol.WorkNotDone(
                        "expected calls of %s s, found one of %s s"
                        % (self._call_s, ended_s - began_s)
                    )

    def _note(self, made, duration_s):
        order = order_of_ends(made)
        self.metadata["pattern"] = order
        self.metadata["in_a_row"] = longest_row(order)
        self.metadata["at_once"] = len(order) * self._call_s / duration_s


def order_of_ends(made):
    """A letter for each call in the order of their ends; A is the thread whose call ended first."""
    ends = [(ended_s, number) for number, calls in enumerate(made) for _, ended_s in calls]
    numbers = [number for _, number in sorted(ends)]
    names = dict(zip(sorted(set(numbers), key=numbers.index), LETTERS))
    return "".join([names[number] for number in numbers])


def longest_row(order):
    longest = length = 1
    for before, after in zip(order, order[1:]):
        length = before == after and length + 1 or 1
        longest = max(longest, length)
    return longest


class Flag(object):
    up = False


def raise_late(flag):
    time.sleep(FLAG_AFTER_S)
    flag.up = True


def wait_by_sleeping(flag):
    while not flag.up:
        time.sleep(SHORT_SLEEP_S)


def wait_by_spinning(flag):
    while not flag.up:
        pass


WAITS = {"short-sleeps": wait_by_sleeping, "spin": wait_by_spinning}


def time_flags(threads, wait, count):
    """The main thread waits for a flag, which another one raises once it has slept."""
    start_s = protocol.timer()
    for _ in range(count):
        flag = Flag()
        sleeping = threads.start(raise_late, flag)
        wait(flag)
        sleeping.join()
    duration_s = protocol.timer() - start_s
    if duration_s < SHORTEST_SHARE * FLAG_AFTER_S * count:
        raise protocol.WorkNotDone(
            "expected %d sleeps of %s s, found %s s in all" % (count, FLAG_AFTER_S, duration_s)
        )
    return duration_s


def prepare(options):
    threads = protocol.Threads()
    if options.what in WAITS:
        wait = WAITS[options.what]
        return protocol.Work(lambda loops: time_flags(threads, wait, loops), 1, {})
    work = Blocking(threads, options.what, options.threads, options.call_ms / 1e3)
    return protocol.Work(work.timed, CALLS_PER_LOOP, work.metadata)


def main():
    parser = protocol.new_parser(__doc__)
    choices = sorted(CALLS) + sorted(WAITS)
    parser.add_option("--what", type="choice", choices=choices, help=" or ".join(choices))
    parser.add_option("--threads", type="int", default=2, help="that block at once")
    parser.add_option("--call-ms", type="int", default=50, help="how long a blocking call takes")
    options = protocol.parse(parser)
    protocol.require_given(parser, "--what", options.what)
    protocol.require_at_least(parser, "--threads", options.threads, 1)
    if options.threads > len(LETTERS):
        parser.error("--threads: expected at most %d, found %d" % (len(LETTERS), options.threads))
    protocol.require_at_least(parser, "--call-ms", options.call_ms, 1)
    protocol.run(prepare, options)


if __name__ == "__main__":
    main()

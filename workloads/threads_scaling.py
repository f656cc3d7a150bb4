"""The same tasks shared by more and more threads: computing, waiting for an answer, or both in turns.

A thread that waits does so for a partner, a process of its own that answers every byte after a
pause: nothing of the pause is spent in this interpreter. Nothing here sleeps or polls.
"""

import os
import socket
import time

import protocol

# So many that 16 threads have one each.
TASKS_PER_LOOP = 16
# Park and Miller's generator, and what their paper says of it: from 1 on, the 10,000th number.
# Random Number Generators: Good Ones Are Hard to Find, Communications of the ACM 31:10 (1988).
MULTIPLIER = 16807
MODULUS = 2147483647
STEPS = 10000
EXPECTED = 1043618065
PAUSE_S = 0.002
QUESTION = "?".encode("ascii")


def compute(partner):
    number = 1
    for _ in protocol.lazy_range(STEPS):
        number = number * MULTIPLIER % MODULUS
    if number != EXPECTED:
        raise protocol.WorkNotDone("expected the number %d, found %d" % (EXPECTED, number))


def exchange(partner):
    partner.sendall(QUESTION)
    answer = partner.recv(1)
    if answer != QUESTION:
        raise protocol.WorkNotDone("expected the answer %r, found %r" % (QUESTION, answer))


def compute_and_exchange(partner):
    compute(partner)
    exchange(partner)


TASKS = {"pure": compute, "io": exchange, "mixed": compute_and_exchange}
TALKING = ["io", "mixed"]


def start_partner():
    """Our end of a connection to a process that answers each byte with itself, a pause later."""
    ours, theirs = socket.socketpair()
    process = os.fork()
    if process:
        theirs.close()
        return process, ours
    try:
        ours.close()
        answer_all(theirs)
    finally:
        # Never back into the program, of which this is a copy.
        os._exit(0)


def answer_all(connection):
    """Until the other end is closed, also by the end of its process."""
    while True:
        question = connection.recv(1)
        if not question:
            return
        time.sleep(PAUSE_S)
        connection.sendall(question)


class Partners(object):
    """One for each thread; started before any thread is, because a fork copies the locks of others."""

    def __init__(self, count):
        self._started = [start_partner() for _ in range(count)]
        self.connections = [connection for _, connection in self._started]

    def close(self):
        # The last one first: it holds copies of the connections of those before it.
        for process, connection in reversed(self._started):
            connection.close()
            os.waitpid(process, 0)


def work_through(task, partner, tasks, finished):
    done = 0
    for _ in tasks:
        task(partner)
        done += 1
    finished.append(done)


def timed(threads, task, connections, loops):
    """Start and end of the threads are within the time; a calibrated value makes them small."""
    task_count = loops * TASKS_PER_LOOP
    finished = []
    start_s = protocol.timer()
    started = [
        threads.start(
            work_through,
            task,
            connection,
            protocol.lazy_range(number, task_count, len(connections)),
            finished,
        )
        for number, connection in enumerate(connections)
    ]
    for thread in started:
        thread.join()
    duration_s = protocol.timer() - start_s
    done = sum(finished)
    if done != task_count:
        raise protocol.WorkNotDone("expected %d tasks done, found %d" % (task_count, done))
    return duration_s


def prepare(options, partners):
    threads = protocol.Threads()
    task = TASKS[options.what]
    connections = partners.connections or [None] * options.threads
    return protocol.Work(
        lambda loops: timed(threads, task, connections, loops),
        TASKS_PER_LOOP,
        {"threads": options.threads},
    )


def main():
    parser = protocol.new_parser(__doc__)
    parser.add_option(
        "--what", type="choice", choices=sorted(TASKS), help=" or ".join(sorted(TASKS))
    )
    parser.add_option("--threads", type="int", default=1, help="that share the tasks")
    options = protocol.parse(parser)
    protocol.require_given(parser, "--what", options.what)
    protocol.require_at_least(parser, "--threads", options.threads, 1)
    count = 0
    if options.what in TALKING:
        count = options.threads
    partners = Partners(count)
    protocol.run(lambda given: prepare(given, partners), options)
    partners.close()


if __name__ == "__main__":
    main()

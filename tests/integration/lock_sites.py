# mypy: ignore-errors
"""Three locks, each with a known number of acquires that must wait, at known lines. For 2.7 to 3.15.

Argument: how many pairs of threads do the same at once, each pair with locks of its own. A holder tells its waiter
through a pipe, which is no lock, that it has the lock, and gives it back when the waiter has waited for a while.
"""

import gc
import io
import os
import sys
import threading
import time

# Longer than a waiter that was told of it needs to get to the lock on a machine of which others have the CPUs.
ROUNDS, HELD_S = 5, 0.1
WORK, END = 3, 4


def mark(phase):
    try:  # noqa: SIM105  2.7 has no contextlib.suppress
        os.close(0x7FFF0000 | phase)
    except OSError:
        pass


def wait_for_first(lock):
    lock.acquire()  # first waits
    lock.release()


def wait_for_second(lock):
    lock.acquire()  # second waits
    lock.release()


def wait_for_third(lock):
    lock.acquire()  # third waits
    lock.release()


def hold(lock, told, done):
    for _ in range(ROUNDS):
        lock.acquire()  # holds
        os.write(told, b"x")
        time.sleep(HELD_S)
        lock.release()  # wakes
        os.read(done, 1)


def wait(function, lock, told, done):
    for _ in range(ROUNDS):
        os.read(told, 1)
        function(lock)
        os.write(done, b"x")


def pair():
    for function in (wait_for_first, wait_for_second, wait_for_third):
        lock, (told, tell), (done, say) = threading.Lock(), os.pipe(), os.pipe()
        waiter = threading.Thread(target=wait, args=(function, lock, told, say))
        waiter.start()
        hold(lock, tell, done)
        waiter.join()


mark(WORK)
pairs = [threading.Thread(target=pair) for _ in range(int(sys.argv[1]))]
for one in pairs:
    one.start()
for one in pairs:
    one.join()
for _ in range(ROUNDS):
    gc.collect()  # stops
sink = io.open(os.devnull, "wb")  # noqa: UP020, SIM115  2.7's own files have no lock, and closing takes it once more
for _ in range(ROUNDS):
    sink.write(b"x")  # takes
sink.close()
mark(END)

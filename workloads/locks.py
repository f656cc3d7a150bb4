"""The price of a lock: for one thread that nobody disturbs, and for threads that share things."""

import protocol

import locks_alone as alone
import locks_shared as shared
import locks_wakes as wakes


def pairs_of(name, inner_loops):
    """Acquire and release what the threading module has by this name."""

    def make(threads, options):
        lock = threads.make(name)
        return work_of(lambda count: alone.time_pairs(lock, count), inner_loops)

    return make


def notifying(threads, options):
    condition = threads.make("Condition")
    return work_of(lambda count: alone.time_notifying(condition, count), alone.PAIRS_PER_LOOP)


def passing(threads, options):
    channel = threads.queue(shared.QUEUE_LENGTH)
    return work_of(lambda count: alone.time_passing(channel, count), alone.PAIRS_PER_LOOP)


def passing_simple(threads, options):
    channel = threads.simple_queue()
    return work_of(lambda count: alone.time_passing(channel, count), alone.PAIRS_PER_LOOP)


def counting(name):
    def make(threads, options):
        guard = threads.make(name)
        return work_of(
            lambda count: shared.time_counter(threads, guard, options.threads, count),
            shared.COUNTS_PER_LOOP,
            threads=options.threads,
        )

    return make


def counting_unprotected(threads, options):
    work = shared.UnprotectedCount(threads, options.threads)
    return protocol.Work(work.timed, shared.COUNTS_PER_LOOP, work.metadata)


def queueing(threads, options):
    return queue_work(threads, options, lambda: threads.queue(shared.QUEUE_LENGTH))


def queueing_simple(threads, options):
    threads.simple_queue()
    return queue_work(threads, options, threads.simple_queue)


def queue_work(threads, options, make_channel):
    return work_of(
        lambda count: shared.time_queue(threads, make_channel(), options.threads // 2, count),
        shared.ITEMS_PER_LOOP,
        threads=options.threads,
    )


def turns(threads, options):
    condition = threads.make("Condition")
    return work_of(
        lambda count: shared.time_turns(threads, condition, count), shared.TURNS_PER_LOOP
    )


def references(threads, options):
    one = object()
    return work_of(
        lambda count: shared.time_references(threads, one, count), shared.REFERENCES_PER_LOOP
    )


def references_apart(threads, options):
    return work_of(
        lambda count: shared.time_references(threads, None, count), shared.REFERENCES_PER_LOOP
    )


def starts(threads, options):
    return work_of(lambda count: wakes.time_starts(threads, count), wakes.STARTS_PER_LOOP)


def waking(threads, options):
    work = wakes.Wakes(threads, options.values)
    return protocol.Work(work.timed, wakes.WAKES_PER_LOOP, work.metadata)


def work_of(time_count, inner_loops, **metadata):
    """``time_count`` does so many units of work and returns the seconds they took."""
    return protocol.Work(lambda loops: time_count(loops * inner_loops), inner_loops, metadata)


WORKS = {
    "uncontended": pairs_of("Lock", alone.LOCK_PAIRS_PER_LOOP),
    "uncontended-rlock": pairs_of("RLock", alone.PAIRS_PER_LOOP),
    "uncontended-semaphore": pairs_of("Semaphore", alone.PAIRS_PER_LOOP),
    "uncontended-condition": notifying,
    "uncontended-queue": passing,
    "uncontended-simple-queue": passing_simple,
    "contended": counting("Lock"),
    "contended-rlock": counting("RLock"),
    "contended-semaphore": counting("Semaphore"),
    "contended-condition": turns,
    "counter-unprotected": counting_unprotected,
    "queue": queueing,
    "simple-queue": queueing_simple,
    "references": references,
    "references-apart": references_apart,
    "thread-start": starts,
    "wake-up": waking,
}


def prepare(options):
    return WORKS[options.what](protocol.Threads(), options)


def main():
    parser = protocol.new_parser(__doc__)
    choices = sorted(WORKS)
    parser.add_option("--what", type="choice", choices=choices, help=" or ".join(choices))
    parser.add_option(
        "--threads", type="int", default=4, help="of a counter or a queue: half put, half get"
    )
    options = protocol.parse(parser)
    protocol.require_given(parser, "--what", options.what)
    protocol.require_at_least(parser, "--threads", options.threads, 2)
    if options.threads % 2:
        parser.error("--threads: expected an even number, found %d" % options.threads)
    protocol.run(prepare, options)


if __name__ == "__main__":
    main()

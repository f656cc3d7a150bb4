"""The price of a lock: for one thread that nobody disturbs, and for threads that share a queue.

Nothing here sleeps or polls: on GNU pth a thread that does either starves all the others.
"""

import protocol

PAIRS_PER_LOOP = 10000
ITEMS_PER_LOOP = 100
# Small enough that producers and consumers really wait for each other.
QUEUE_LENGTH = 16


def time_uncontended(threads, loops):
    lock = threads.lock()
    # Bound once: the lookup of a method costs as much as the lock and differs between versions.
    acquire, release = lock.acquire, lock.release
    repeats = protocol.lazy_range(loops * PAIRS_PER_LOOP)
    start_s = protocol.timer()
    for _ in repeats:
        acquire()
        release()
    duration_s = protocol.timer() - start_s
    if lock.locked():
        raise protocol.WorkNotDone("expected a free lock at the end, found a locked one")
    return duration_s


def produce(channel, items):
    for item in items:
        channel.put(item)


def consume(channel, sums):
    received = 0
    while True:
        item = channel.get()
        if item is None:
            break
        received += item
    sums.append(received)


def time_queue(threads, pairs, loops):
    """Start and end of the threads are within the time; a calibrated value makes them small."""
    item_count = loops * ITEMS_PER_LOOP
    channel = threads.queue(QUEUE_LENGTH)
    sums = []
    start_s = protocol.timer()
    consumers = [threads.start(consume, channel, sums) for _ in range(pairs)]
    # From 1 and not from 0, so that every lost item changes the sum.
    shares = [protocol.lazy_range(1 + number, 1 + item_count, pairs) for number in range(pairs)]
    for producer in [threads.start(produce, channel, share) for share in shares]:
        producer.join()
    for _ in consumers:
        channel.put(None)
    for consumer in consumers:
        consumer.join()
    duration_s = protocol.timer() - start_s
    check_sum(item_count, sum(sums))
    return duration_s


def check_sum(item_count, found):
    expected = item_count * (item_count + 1) // 2
    if found != expected:
        raise protocol.WorkNotDone(
            "expected %d items with the sum %d, found the sum %d" % (item_count, expected, found)
        )


def prepare(options):
    threads = protocol.Threads()
    if options.what == "uncontended":
        return protocol.Work(lambda loops: time_uncontended(threads, loops), PAIRS_PER_LOOP, {})
    pairs = options.threads // 2
    return protocol.Work(
        lambda loops: time_queue(threads, pairs, loops),
        ITEMS_PER_LOOP,
        {"threads": options.threads},
    )


def main():
    parser = protocol.new_parser(__doc__)
    parser.add_option(
        "--what", type="choice", choices=["uncontended", "queue"], help="uncontended or queue"
    )
    parser.add_option("--threads", type="int", default=4, help="of the queue: half put, half get")
    options = protocol.parse(parser)
    protocol.require_given(parser, "--what", options.what)
    protocol.require_at_least(parser, "--threads", options.threads, 2)
    if options.threads % 2:
        parser.error("--threads: expected an even number, found %d" % options.threads)
    protocol.run(prepare, options)


if __name__ == "__main__":
    main()

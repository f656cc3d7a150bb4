"""Fills a queue with tasks, has huey's worker do them in two threads, and ends with what they found."""

import json
import threading
import time

from huey import SqliteHuey

TASKS = 1500
queue = SqliteHuey(filename="/tmp/queue.db", fsync=False)
done = threading.Semaphore(0)


@queue.task()
def count_words(number):
    """Build a document as JSON and count its words: what a worker computes between waits."""
    document = json.dumps([{"id": number, "text": f"word{index % 97} " * 20} for index in range(60)])
    counts = {}
    for entry in json.loads(document):
        for word in entry["text"].split():
            counts[word] = counts.get(word, 0) + 1
    done.release()
    return len(counts)


def main():
    """Queue the tasks, start the worker, and wait until all are done."""
    results = [count_words(number) for number in range(TASKS)]
    worker = queue.create_consumer(workers=2, worker_type="thread", periodic=False, initial_delay=0.01, max_delay=0.05)
    worker.start()
    for _ in range(TASKS):
        done.acquire()
    while len(queue):
        time.sleep(0.01)
    worker.stop(graceful=True)
    print(sum(result.get(blocking=True, timeout=10) for result in results))


if __name__ == "__main__":
    main()

"""Runs under a variant before its stacks are taken: where does this interpreter keep its frames?

Prints one JSON object: offsets by name, the ELF files whose functions may be on a stack, and whether there is a GIL.
Nothing here knows a version's structures: each offset is found by searching this process's own memory for what Python
says of its frames and code, in several threads, until one place is left. Written for 2.7 to 3.15; where something is not
found it says what.
"""

import glob
import os
import struct
import sys
import threading
import time

MEMORY = os.open("/proc/self/mem", os.O_RDONLY)
LEAST, MOST = 4096, 1 << 47  # addresses of a process
OBJECT, STATE, THREAD_BELOW, THREAD_ABOVE = 320, 1024, 512, 2304  # bytes that are searched
NONE = -1
NEAR = 160


class NotFoundError(Exception):
    """What could not be found."""


def read(address, size):
    """Return the bytes there; fewer or none if it is not memory."""
    if not LEAST <= address < MOST:
        return b""
    try:
        os.lseek(MEMORY, address, 0)
        return os.read(MEMORY, size)
    except (OSError, OverflowError):
        return b""


def words(address, size):
    data = read(address, size)
    return struct.unpack("%dQ" % (len(data) // 8), data[: len(data) // 8 * 8])


def places(address, value, size, width=8):
    """Return the offsets at which a number is; of pointers the lowest three bits may be a tag."""
    if width == 8:
        return {index * 8 for index, word in enumerate(words(address, size)) if word & ~7 == value & ~7}
    data = read(address, size)
    numbers = struct.unpack("%di" % (len(data) // 4), data[: len(data) // 4 * 4])
    return {index * 4 for index, number in enumerate(numbers) if number == value}


def one_place(what, samples, size=OBJECT, width=8):
    """Return the lowest offset that all samples (address, value) have in common."""
    common = set.intersection(*[places(address, value, size, width) for address, value in samples])
    if not common:
        raise NotFoundError(what)
    return min(common)


class Waiting(threading.Thread):
    """A thread that waits for a lock, two functions deep."""

    def __init__(self):
        threading.Thread.__init__(self)
        self.daemon = True
        self.gate = threading.Lock()
        self.gate.acquire()
        self.ident_there = None

    def run(self):
        self.ident_there = get_ident()
        self.outer()

    def outer(self):
        unused = [1, 2]
        self.inner(unused)

    def inner(self, unused):
        unused.append(3)
        self.gate.acquire()


def get_ident():
    try:
        return threading.get_ident()
    except AttributeError:
        import thread

        return thread.get_ident()


def settled_frames(threads):
    """Return the frame of each thread once it waits."""
    for _ in range(200):
        frames = sys._current_frames()
        frames_there = [frames.get(thread.ident_there) for thread in threads]
        if all(frame is not None and frame.f_code.co_name == "inner" for frame in frames_there):
            time.sleep(0.05)
            return frames_there
        time.sleep(0.05)  # on GNU pth less than this starves the others
    raise NotFoundError("threads that wait")


def chain(frame):
    """Return a frame and its callers, all of which stand at a call."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def natives(frames):
    """Return where each frame is: its object up to 3.10, later the frame that its object points to."""
    if sys.version_info < (3, 11):
        return [id(frame) for frame in frames]
    candidates = None
    for frame in frames:
        mine = {
            index * 8: word
            for index, word in enumerate(words(id(frame), 96))
            if places(word, id(frame.f_code), 128) and index > 1
        }
        candidates = set(mine) if candidates is None else candidates & set(mine)
    if not candidates:
        raise NotFoundError("the interpreter's frame of a frame object")
    offset = min(candidates)
    return [words(id(frame) + offset, 8)[0] for frame in frames]


def thread_state_places(ident, native):
    """Return (from the thread's own pointer, to what leads to the frame or NONE, to the frame) of all chains to a frame."""
    start = ident - THREAD_BELOW
    ways = set()
    for index, state in enumerate(words(start, THREAD_BELOW + THREAD_ABOVE)):
        here = index * 8 - THREAD_BELOW
        state_words = words(state, STATE)
        for offset, word in enumerate(state_words):
            if word == native:
                ways.add((here, NONE, offset * 8))
            elif (3, 11) <= sys.version_info < (3, 13) and word != state:
                ways.update((here, offset * 8, deep) for deep in places(word, native, 32) if words(word + deep, 8)[0] == native)
    return ways


def instruction_places(frames, at):
    """Return the offset of a frame's instruction pointer, and that of the instructions in a code object."""
    common = None
    for frame in frames:
        mine = set()
        for index, word in enumerate(words(at[id(frame)], 128)):
            start = word - id(frame.f_code) - frame.f_lasti
            if 0 < start < 1024:
                mine.add((index * 8, start))
        common = mine if common is None else common & mine
    if not common:
        raise NotFoundError("a frame's instruction")
    return min(common)


def own_copies(frames, at, known):
    """Add where a thread has its own copy of a function's instructions, as free-threaded builds from 3.14 do."""
    samples = []
    for frame in frames:
        address = at[id(frame)]
        start = words(address + known["instruction"], 8)[0] - frame.f_lasti
        if start == id(frame.f_code) + known["instructions"]:
            continue
        for index, word in enumerate(words(id(frame.f_code), 256)):
            copies = words(word, 96)
            if start in copies:
                samples.append((index * 8, copies.index(start) * 8 - 8, address))
                break
    if not samples:
        return
    known["copies"] = samples[0][0]
    known["copy_number"] = one_place("a frame's copy", [(at, offset // 8) for _, offset, at in samples], 96, 4)


def text_place(text):
    """Return where in a string object its characters begin."""
    data = read(id(text), 128)
    at = data.find(text.encode("ascii") if not isinstance(text, bytes) else text)
    if at < 0:
        raise NotFoundError("a string's characters")
    return at


def data_of(word):
    """Yield (file, address of its first byte, start, end) of the data of the files whose name has a word."""
    beginnings, last = {}, ("", 0)
    stream = open("/proc/self/maps")
    for line in stream:
        parts = line.split(None, 5)
        start, end = [int(bound, 16) for bound in parts[0].split("-")]
        path = parts[5].strip() if len(parts) == 6 else ""
        if path and word in os.path.basename(path):
            beginnings.setdefault(path, start - int(parts[2], 16))
        # What a file has no bytes for follows it without a name.
        owner = path or (last[0] if last[1] == start else "")
        if owner in beginnings and parts[1].startswith("rw"):
            yield owner, beginnings[owner], start, end
        last = owner, end
    stream.close()


def find_list(natives_by_ident, known):
    """Find the list of all threads' states that interpreters keep where threads have no pointer of their own."""
    for path, beginning, start, end in list(data_of("python")):
        for index, node in enumerate(words(start, end - start)):
            states, state_place = listed(node, natives_by_ident)
            if states and len(states) == len(natives_by_ident):
                frames = set.intersection(*[places(states[ident], native, NEAR) for ident, native in natives_by_ident.items()])
                known.update(thread=0, through=NONE, frame=min(frames), list_state=state_place)
                known.update(list=start + 8 * index - beginning, list_file=path)
                return
    raise NotFoundError("a thread's state, and the list of threads")


def listed(node, natives_by_ident):
    """Return the states in a list that begins here, by thread, and where in a node they are; nothing if it is none."""
    states, state_place = {}, 0
    for _ in range(16):
        node_words = words(node, 32)
        if len(node_words) < 4:
            break
        native = natives_by_ident.get(node_words[1])
        if native is not None:
            for index in (2, 3):
                if places(node_words[index], native, NEAR):
                    states[node_words[1]], state_place = node_words[index], index * 8
        node = node_words[0]
    return states, state_place


def find_running(idents, known):
    """Find where GNU pth says which thread runs, if threads are pth's: it holds the number of whoever looks."""

    def candidates():
        me = get_ident()
        return {
            (path, start + 8 * index - beginning)
            for path, beginning, start, end in list(data_of("libpth"))
            for index, word in enumerate(words(start, end - start))
            if word == me and "libpthread.so.0" not in path
        }

    seen = []
    other = threading.Thread(target=lambda: seen.append(candidates()))
    other.start()
    other.join()
    both = candidates() & seen[0]
    if both:
        known["running_file"], known["running"] = min(both)


def offsets(main_ident):
    """Return all offsets by name, found in a thread while the main one waits; NotFoundError says what is not found."""
    threads = [Waiting() for _ in range(3)]
    for thread in threads:
        thread.start()
    innermost = settled_frames(threads)
    main_frames = chain(sys._current_frames()[main_ident])
    chains = [chain(frame) for frame in innermost]
    frames = sum(chains, []) + main_frames
    at = dict(zip(map(id, frames), natives(frames)))
    codes = [frame.f_code for frame in frames]
    known = {"copies": NONE, "copy_number": NONE, "instructions": 0, "by_address": int(sys.version_info >= (3, 11))}
    named = "co_qualname" if hasattr(codes[0], "co_qualname") else "co_name"
    known["filename"] = one_place("co_filename", [(id(code), id(code.co_filename)) for code in codes])
    known["name"] = one_place(named, [(id(code), id(getattr(code, named))) for code in codes])
    known["first_line"] = one_place("co_firstlineno", [(id(code), code.co_firstlineno) for code in codes], width=4)
    known["text"] = text_place(codes[0].co_filename)
    kind = type(codes[0])
    known["type"] = one_place("ob_type", [(id(code), id(kind)) for code in codes], 64)
    known["type_name"] = [index * 8 for index, word in enumerate(words(id(kind), 128)) if read(word, 5) == b"code\0"][0]
    known["code"] = one_place("a frame's code", [(at[id(frame)], id(frame.f_code)) for frame in frames])
    called = [(at[id(frames_of_thread[0])], at[id(frames_of_thread[1])]) for frames_of_thread in chains]
    known["previous"] = one_place("a frame's caller", called)
    if known["by_address"]:
        known["instruction"], known["instructions"] = instruction_places(main_frames, at)
        own_copies(innermost, at, known)
    else:
        scale = 2 if sys.version_info >= (3, 10) else 1
        stands = [(at[id(frame)], frame.f_lasti // scale) for frame in frames]
        known["instruction"] = one_place("f_lasti", stands, OBJECT + 256, 4)
    idents = [thread.ident_there for thread in threads] + [main_ident]
    places_of_states = [thread_state_places(ident, at[id(frame)]) for ident, frame in zip(idents, innermost + main_frames[:1])]
    ways = set.intersection(*places_of_states)
    # What begins far before the frame is no thread's state but memory that has one somewhere.
    near = [way for way in ways if way[1] < NEAR and way[2] < NEAR]
    known.update(dict.fromkeys(("list_file", "list", "list_state", "running_file", "running"), 0))
    if near:
        known["thread"], known["through"], known["frame"] = min(near)
    else:
        natives_by_ident = dict(zip(idents, [at[id(frame)] for frame in innermost + main_frames[:1]]))
        find_list(natives_by_ident, known)
        find_running(idents, known)
    known["scale"] = 2 if (3, 10) <= sys.version_info < (3, 11) else 1
    return known


def elf_files():
    """Return the files that are mapped as code here, and the extension modules that may be."""
    files = set()
    stream = open("/proc/self/maps")
    for line in stream:
        parts = line.split(None, 5)
        if "x" in parts[1] and len(parts) == 6 and parts[5].startswith("/"):
            files.add(parts[5].strip())
    stream.close()
    folders = [path for path in sys.path if path and os.path.isdir(path)]
    for folder in folders:
        for pattern in ("*.so", "*/*.so", "*/*/*.so"):
            files.update(os.path.realpath(path) for path in glob.glob(os.path.join(folder, pattern)))
    return sorted(files)


def main():
    import json

    gil = getattr(sys, "_is_gil_enabled", lambda: not getattr(sys.flags, "nogil", False))()
    answer = {"files": elf_files(), "offsets": None, "missing": "", "gil": gil}

    def find(ident):
        try:
            answer["offsets"] = offsets(ident)
        except (NotFoundError, IndexError):
            answer["missing"] = str(sys.exc_info()[1])

    finder = threading.Thread(target=find, args=(get_ident(),))
    finder.start()
    finder.join()
    if answer["offsets"]:
        for name in ("list_file", "running_file"):
            path = answer["offsets"][name]
            answer["offsets"][name] = answer["files"].index(path) + 1 if path else 0
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()

"""Commands of Mercurial through one process of its command server, instead of a process for each.

The protocol: https://www.mercurial-scm.org/wiki/CommandServer
"""

import struct
import subprocess
import sys

import protocol

ANSWER = "Mercurial Distributed SCM".encode("ascii")
HEADER = ">cI"
# Channels that ask for what this program does not give: input.
INPUT_CHANNELS = "IL"


class Server(object):
    """A command server that is started now and talks through its pipes."""

    def __init__(self, hg):
        flags = getattr(subprocess, "_args_from_interpreter_flags", list)()
        argv = [sys.executable] + flags + [hg, "serve", "--cmdserver", "pipe"]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        hello = self._read()[1].decode("ascii")
        if "runcommand" not in hello:
            raise protocol.WorkNotDone("the command server greets with %r" % hello)

    def run(self, arguments):
        """What the command printed, and its exit code."""
        data = "\0".join(arguments).encode("ascii")
        command = "runcommand\n".encode("ascii")
        self._process.stdin.write(command + struct.pack(">I", len(data)) + data)
        self._process.stdin.flush()
        printed = []
        while True:
            channel, data = self._read()
            if channel == "r":
                return "".encode("ascii").join(printed), struct.unpack(">i", data)[0]
            if channel == "o":
                printed.append(data)
            elif channel in INPUT_CHANNELS:
                raise protocol.WorkNotDone("the command server asks for input")

    def stop(self):
        self._process.stdin.close()
        code = self._process.wait()
        if code != 0:
            raise protocol.WorkNotDone("the command server ended with exit code %d" % code)

    def _read(self):
        header = self._process.stdout.read(struct.calcsize(HEADER))
        if len(header) < struct.calcsize(HEADER):
            raise protocol.WorkNotDone("the command server closed its pipe")
        channel, length = struct.unpack(HEADER, header)
        channel = channel.decode("ascii")
        if channel in INPUT_CHANNELS:
            return channel, None
        data = self._process.stdout.read(length)
        if len(data) < length:
            raise protocol.WorkNotDone("the command server's answer is cut short")
        return channel, data


def time_commands(server, loops):
    start_s = protocol.timer()
    for _ in protocol.lazy_range(loops):
        printed, code = server.run(["version"])
        if code != 0 or ANSWER not in printed:
            raise protocol.WorkNotDone("hg version: exit code %d, %r" % (code, printed[:80]))
    return protocol.timer() - start_s


def measure(options):
    servers = []

    def prepare(options):
        server = Server(options.hg)
        servers.append(server)
        # The first command of a server loads what the others find loaded.
        time_commands(server, 1)
        return protocol.Work(lambda loops: time_commands(server, loops), 1, {})

    protocol.run(prepare, options)
    for server in servers:
        server.stop()


def main():
    parser = protocol.new_parser(__doc__)
    parser.add_option("--hg", help="the script hg of Mercurial", metavar="FILE")
    options = protocol.parse(parser)
    protocol.require_given(parser, "--hg", options.hg)
    measure(options)


if __name__ == "__main__":
    main()

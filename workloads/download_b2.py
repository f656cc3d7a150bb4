"""Download with the real b2sdk and the real b2 command line, unmodified, from a server that answers as B2 does.

Their releases differ by variant: they are what each variant can install, and are reported.
"""

import protocol

import glob
import os
import shutil
import subprocess
import sys
import tempfile

import download_files as files
import download_http as http

BUCKET = "bucket"
KEY_ID, KEY = "account", "key"
SKIP_HASH = "--skip-hash-verification"
# What the installed packages say of their commands, beside the packages: of a wheel or of setup.py.
ENTRY_POINTS = ("%s-%s.dist-info/entry_points.txt", "%s-%s*.egg-info/entry_points.txt")
RUN_ENTRY_POINT = "import sys; sys.argv[0] = 'b2'; from %s import %s as main; sys.exit(main())"


class Sdk(object):
    """Files downloaded one after the other by b2sdk within this process."""

    def __init__(self, options, directory):
        self._api = import_sdk()
        info = self._api.InMemoryAccountInfo()
        client = self._api.B2Api(info)
        client.authorize_account(options.server, KEY_ID, KEY)
        self._bucket = client.get_bucket_by_name(BUCKET)
        self._directory = directory
        self.metadata = {"b2sdk": release_of("b2sdk")}

    def target(self, entry):
        return os.path.join(self._directory, os.path.basename(entry.path))

    def fetch(self, entries):
        for entry in entries:
            self._save(entry.path, self.target(entry))

    def _save(self, name, target):
        local_file = getattr(self._api, "DownloadDestLocalFile", None)
        if local_file is None:
            self._bucket.download_file_by_name(name).save_to(target)
        else:
            self._bucket.download_file_by_name(name, local_file(target))


class Command(object):
    """The b2 command line, a process for each download, its start included."""

    def __init__(self, options, directory):
        self._directory = directory
        self._account = os.path.join(directory, "account-info")
        self._files = os.path.join(directory, "files")
        # The command's own authorization asks for the server in another way in each release.
        api = import_sdk()
        info = api.SqliteAccountInfo(self._account)
        api.B2Api(info).authorize_account(options.server, KEY_ID, KEY)
        release = release_of("b2")
        self.metadata = {"b2": release, "b2sdk": release_of("b2sdk")}
        self._is_old = int(release.split(".")[0]) < 4
        self._entry_point = entry_point(release)
        self._more = []
        if options.skip_hash:
            self._more = [SKIP_HASH]
        self.metadata["command_start_s"] = self._start_s()

    def target(self, entry):
        return os.path.join(self._files, os.path.basename(entry.path))

    def fetch(self, entries):
        shutil.rmtree(self._files, True)
        os.mkdir(self._files)
        if len(entries) > 1:
            quiet = {True: "--noProgress", False: "--no-progress"}[self._is_old]
            self._run("sync", quiet, "b2://%s/many" % BUCKET, self._files)
        elif self._is_old:
            arguments = [BUCKET, entries[0].path, self.target(entries[0])]
            self._run("download-file-by-name", "--noProgress", *(self._more + arguments))
        else:
            arguments = ["b2://%s/%s" % (BUCKET, entries[0].path), self.target(entries[0])]
            self._run("file", "download", "--no-progress", *(self._more + arguments))

    def _start_s(self):
        start_s = protocol.timer()
        self._run("version")
        return protocol.timer() - start_s

    def _run(self, *arguments):
        environment = dict(os.environ)
        environment["B2_ACCOUNT_INFO"] = self._account
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", self._entry_point] + list(arguments),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        said = process.communicate()[0].decode("utf-8", "replace")
        if process.returncode == 0:
            return
        if SKIP_HASH in arguments and "unrecognized arguments" in said:
            raise protocol.Unsupported("b2 %s has no %s" % (self.metadata["b2"], SKIP_HASH))
        problem = (arguments[0], process.returncode, (said.strip().splitlines() or [""])[-1])
        raise protocol.WorkNotDone("b2 %s ended with exit code %d: %s" % problem)


class Download(object):
    """What is asked for, downloaded into an empty directory, and every byte of it compared."""

    def __init__(self, client, entries):
        self._client = client
        self._entries = entries

    def timed(self, loops):
        duration_s = 0.0
        for _ in range(loops):
            self._clear()
            start_s = protocol.timer()
            self._client.fetch(self._entries)
            duration_s += protocol.timer() - start_s
            downloaded = protocol.usage()
            # The command says 'Checksum matches' even where it compared none.
            for entry in self._entries:
                files.check_stored(entry, self._client.target(entry))
            self._clear()
            protocol.set_aside(downloaded)
        return duration_s

    def _clear(self):
        for entry in self._entries:
            files.remove(self._client.target(entry))


WORKS = {
    "sdk-single": (Sdk, "single.bin"),
    "sdk-many": (Sdk, "many/"),
    "command-single": (Command, "single.bin"),
    "command-sync": (Command, "many/"),
}


def import_sdk():
    """The newest interface that both old and new releases of b2sdk have under one name."""
    try:
        try:
            import b2sdk.v2 as api
        except ImportError:
            import b2sdk.v1 as api
    except ImportError:
        raise protocol.Unsupported(
            "b2sdk cannot be imported: " + protocol.describe(sys.exc_info()[1])
        )
    return api


def folder_of(package):
    return os.path.dirname(os.path.dirname(os.path.abspath(__import__(package).__file__)))


def release_of(package):
    """As the folder of its metadata is named: old releases say it nowhere else alike."""
    for kind in ("dist-info", "egg-info"):
        for path in glob.glob(os.path.join(folder_of(package), "%s-*.%s" % (package, kind))):
            return os.path.basename(path).split("-")[1].replace(".dist", "").replace(".egg", "")
    raise protocol.WorkNotDone("%s is there without its metadata" % package)


def entry_point(release):
    """Python source that does what the installed script `b2` does."""
    for pattern in ENTRY_POINTS:
        for path in glob.glob(os.path.join(folder_of("b2"), pattern % ("b2", release))):
            for line in open(path).read().splitlines():
                name, _, target = line.partition("=")
                if name.strip() == "b2":
                    return RUN_ENTRY_POINT % tuple(target.strip().split(":"))
    raise protocol.WorkNotDone("b2 %s has no command" % release)


def prepare(options):
    client, prefix = WORKS[options.what]
    protocol.Threads()
    directory = tempfile.mkdtemp("", "b2-", options.destination)
    options.directories.append(directory)
    entries = files.select(http.read_manifest(options.server), prefix)
    metadata = {"bytes": files.sum_bytes(entries)}
    if options.tls_port:
        metadata["tls"] = http.tls_spoken(options.server, options.tls_port)
        # Of requests, by which b2sdk asks; the command inherits it.
        os.environ["REQUESTS_CA_BUNDLE"] = http.certificate_file(options.server)
        options.server = http.TLS_SCHEME + http.tls_address(options.server, options.tls_port)
    made = client(options, directory)
    metadata.update(made.metadata)
    return protocol.Work(Download(made, entries).timed, metadata["bytes"] // files.MIB, metadata)


def main():
    parser = protocol.new_parser(__doc__)
    choices = sorted(WORKS)
    parser.add_option("--what", type="choice", choices=choices, help=" or ".join(choices))
    parser.add_option("--server", help="http://IP:PORT")
    parser.add_option("--tls-port", type="int", default=0, help="of the server; 0: in the clear")
    parser.add_option("--destination", help="an existing directory")
    parser.add_option("--skip-hash", action="store_true", default=False, help="as b2 " + SKIP_HASH)
    options = protocol.parse(parser)
    protocol.require_given(parser, "--what", options.what)
    protocol.require_at_least(parser, "--tls-port", options.tls_port, 0)
    http.require_server(parser, options.server)
    if not os.path.isdir(options.destination or ""):
        parser.error("--destination: expected a directory, found %s" % options.destination)
    options.directories = []
    try:
        protocol.run(prepare, options)
    finally:
        for directory in options.directories:
            shutil.rmtree(directory, True)


if __name__ == "__main__":
    main()

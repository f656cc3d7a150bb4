"""Runs inside an image, on any interpreter from 2.5 to 3.15: does it do what people rely on in python:X-slim?

Prints for every check a line `name=ok`, or `name=` and what was found. It asks the same of every interpreter and knows
no versions; which of the checks a version promises is in engine/build/contract.py.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

PREFIX = "/usr/local"
MAJOR = "%d" % sys.version_info[0]
LINE = "%d.%d" % sys.version_info[:2]
DATA = "what people rely on ".encode("ascii") * 100
COMPILER = re.compile(r"(.+-)?(cc|c\+\+|gcc|g\+\+|clang|clang\+\+|cpp|ld|as|make)(-[0-9]+)?$")
PACKAGE_LIST = re.compile(r"(?!lock$|.*Release(\.gpg)?$)")  # apt's own clean-up keeps the releases' signatures
BUILD_TREES = ("/build", "/stage", "/interlock", "/usr/src/python")


def say(name, text):
    """Print one line without buffering, so that it is out if a later check crashes the interpreter."""
    line = "%s=%s\n" % (name, " ".join(text.split()))
    if not isinstance(line, type(DATA)):
        line = line.encode("utf-8", "backslashreplace")
    os.write(1, line)


def module(*names):
    """Import and return the first of these modules that exists; raise the first one's ImportError if none does.

    Import statements would not do, because a name may be newer than 2.5.
    """
    errors = []
    for name in names:
        try:
            __import__(name)
            return sys.modules[name]
        except ImportError:
            errors.append(sys.exc_info()[1])
    raise errors[0]


def need(condition, otherwise):
    """Raise AssertionError with what was found, unless the condition holds."""
    if not condition:
        raise AssertionError(otherwise)


def run(*argv):
    """Run a program and return what it printed; AssertionError if its exit code is not 0."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = process.communicate()[0].decode("utf-8", "replace").strip()
    last = (output.splitlines() or ["no output"])[-1]
    what = " ".join([word for word in argv if " " not in word][:4])
    need(process.returncode == 0, "%s ended with %s: %s" % (what, process.returncode, last))
    return output


def script(*lines):
    """Run these lines in an interpreter of their own and return what they printed."""
    return run(sys.executable, "-c", "\n".join(lines))


def none_of(paths):
    """Require that none of these paths exists; the error names the first three."""
    paths = sorted(paths)
    need(not paths, "%d found: %s" % (len(paths), " ".join(paths[:3])))


def none_missing(paths):
    """Require that this list of missing paths is empty."""
    need(not paths, "no %s" % ", no ".join(paths))


def files_below(*folders):
    """Return the paths of all files below these folders."""
    return [os.path.join(place, file) for folder in folders for place, _, files in os.walk(folder) for file in files]


def compresses(name):
    """Return a check that this module restores what it compressed."""
    def check():
        codec = module(name)
        need(codec.decompress(codec.compress(DATA)) == DATA, "other data come back")

    return check


def sqlite():
    connection = module("sqlite3").connect(":memory:")
    connection.execute("create table answers (answer)")
    connection.execute("insert into answers values (42)")
    need(connection.execute("select answer from answers").fetchone() == (42,), "other data come back")


def sqlite_extensions():
    module("sqlite3").connect(":memory:").enable_load_extension(True)


def secure_sockets():
    module("ssl").create_default_context().set_ciphers("HIGH")


def ca_certificates():
    """Load authorities from where OpenSSL looks, file by file: it opens its folder only when it meets a certificate."""
    tls = module("ssl")
    paths = tls.get_default_verify_paths()
    context = tls.create_default_context()
    for file in glob.glob("%s/*.0" % paths.capath)[:5]:
        context.load_verify_locations(file)
    authorities = context.cert_store_stats()["x509_ca"]
    need(authorities > 0, "none where OpenSSL looks: %s, %s" % (paths.openssl_cafile, paths.openssl_capath))
    context.load_verify_locations("/etc/ssl/certs/ca-certificates.crt")
    need(context.cert_store_stats()["x509_ca"] > 50, "/etc/ssl/certs/ca-certificates.crt has next to none")


def ctypes():
    """Call the C library, and let it call back, for which libffi needs memory that it may execute."""
    types = module("ctypes")
    libc = types.CDLL(None)
    need(libc.getpid() == os.getpid(), "getpid() answers otherwise")
    numbers = (types.c_int * 3)(3, 1, 2)
    pointer = types.POINTER(types.c_int)
    compare = types.CFUNCTYPE(types.c_int, pointer, pointer)(lambda a, b: a[0] - b[0])
    libc.qsort(numbers, 3, types.sizeof(types.c_int), compare)
    need(list(numbers) == [1, 2, 3], "qsort() does not sort")


def readline():
    editor = module("readline")
    editor.add_history("a line")
    need(editor.get_history_item(editor.get_current_history_length()) == "a line", "the history forgets")


def curses():
    screen = module("curses")
    screen.setupterm("xterm", 1)
    need(screen.tigetnum("colors") > 1, "no terminfo entry for xterm")


def database(*names):
    """Return a check that the first of these dbm modules stores a key."""
    def check():
        library = module(*names)
        folder = tempfile.mkdtemp()
        try:
            database = library.open(os.path.join(folder, "data"), "c")
            database["key"] = "value"
            need(database["key"] == "value".encode("ascii"), "other data come back")
            database.close()
        finally:
            shutil.rmtree(folder)

    return check


def hashlib():
    """Hash by OpenSSL itself: without it the standard library's slower code serves the common names, and nobody notices."""
    digest = module("_hashlib").openssl_sha256("abc".encode("ascii")).hexdigest()
    need(digest.startswith("ba7816bf"), "another digest: %s" % digest)


def expat():
    tree = module("xml.etree.ElementTree")
    need(tree.fromstring("<a><b>text</b></a>").findtext("b") == "text", "other data come back")


def threads():
    ran = []
    thread = module("threading").Thread(target=ran.append, args=(1,))
    thread.start()
    thread.join()
    need(ran == [1], "the thread did not run")


def multiprocessing():
    semaphore = module("multiprocessing").Semaphore(1)
    need(semaphore.acquire(False) and not semaphore.acquire(False), "the semaphore does not count")


def utf_8():
    encodings = [sys.getfilesystemencoding(), module("locale").getpreferredencoding()]
    need([str(name).lower().replace("-", "") for name in encodings] == ["utf8"] * 2, "%s and %s" % tuple(encodings))


def time_zones():
    before = os.environ.get("TZ", "UTC")
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    hour = time.localtime(0)[3]
    os.environ["TZ"] = before
    time.tzset()
    need(hour == 9, "with TZ=Asia/Tokyo the epoch is at %d o'clock, not at 9" % hour)


def zoneinfo():
    hours = script(
        "import datetime, zoneinfo",
        "when = datetime.datetime(2020, 1, 1, tzinfo=zoneinfo.ZoneInfo('Asia/Tokyo'))",
        "print(when.utcoffset())",
    )
    need(hours == "9:00:00", "Asia/Tokyo is %s from UTC" % hours)


def services():
    need(module("socket").getservbyname("https") == 443, "https has another port")


def prefix():
    need(os.path.realpath(sys.prefix) == PREFIX, sys.prefix)


def site_packages():
    folder = "%s/lib/python%s/site-packages" % (PREFIX, LINE)
    need(os.path.isdir(folder), "no %s" % folder)
    need(folder in sys.path, "%s is not in sys.path" % folder)


def headers():
    """Require the headers where the interpreter tells compilers to look."""
    folder = module("sysconfig", "distutils.sysconfig").get_config_var("INCLUDEPY")
    paths = ["%s/%s" % (folder, name) for name in ("Python.h", "pyconfig.h")]
    none_missing([path for path in paths if not os.path.isfile(path)])


def libpython():
    name = "libpython%s*.so.1.0" % LINE
    need(glob.glob("%s/lib/%s" % (PREFIX, name)), "no %s/lib/%s" % (PREFIX, name))


def command(arguments, answer, *names):
    """Return a check that each of these programs is in /usr/local/bin and prints the answer."""

    def check():
        paths = ["%s/bin/%s" % (PREFIX, name) for name in names]
        none_missing([path for path in paths if not os.path.exists(path)])
        for path in paths:
            said = run(path, *arguments)
            need(answer in said, "%s says %s" % (path, said[:60]))

    return check


def pip():
    """Install a wheel that is made here, so that no network is needed."""
    folder = tempfile.mkdtemp()
    try:
        wheel, target = os.path.join(folder, "agreed-1.0-py2.py3-none-any.whl"), os.path.join(folder, "target")
        archive = module("zipfile").ZipFile(wheel, "w")
        archive.writestr("agreed.py", "ANSWER = 42\n")
        archive.writestr("agreed-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: agreed\nVersion: 1.0\n")
        archive.writestr(
            "agreed-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py2-none-any\nTag: py3-none-any\n",
        )
        archive.writestr("agreed-1.0.dist-info/RECORD", "agreed.py,,\n")
        archive.close()
        run(sys.executable, "-m", "pip", "install", "--no-index", "--no-cache-dir", "--target", target, wheel)
        said = script("import sys", "sys.path.insert(0, %r)" % target, "import agreed", "print(agreed.ANSWER)")
        need(said == "42", said)
    finally:
        shutil.rmtree(folder)


def venv():
    folder = tempfile.mkdtemp()
    try:
        run(sys.executable, "-m", "venv", folder)
        own = os.path.join(folder, "bin", "python")
        prefix = run(own, "-c", "import sys; print(sys.prefix)")
        need(prefix == folder, "its prefix is %s" % prefix)
        run(own, "-m", "pip", "--version")
    finally:
        shutil.rmtree(folder)


def byte_code():
    """Compile a module beside its source, as Dockerfiles do after an installation."""
    folder = tempfile.mkdtemp()
    try:
        source = open(os.path.join(folder, "agreed.py"), "w")
        source.write("ANSWER = 42\n")
        source.close()
        run("env", "-u", "PYTHONPYCACHEPREFIX", sys.executable, "-m", "compileall", "-q", folder)
        need([path for path in files_below(folder) if path.endswith(".pyc")], "it ends well and writes nothing")
    finally:
        shutil.rmtree(folder)


def importable(name):
    """Return a check that a fresh interpreter imports this module."""
    def check():
        script("import %s" % name)

    return check


def home():
    descriptor, path = tempfile.mkstemp(dir=os.path.expanduser("~"))
    os.close(descriptor)
    os.remove(path)


def no_compiler():
    folders = set([os.path.realpath(folder) for folder in os.environ["PATH"].split(":") if os.path.isdir(folder)])
    none_of([os.path.join(folder, name) for folder in folders for name in os.listdir(folder) if COMPILER.match(name)])


def no_package_lists():
    lists = [path for path in files_below("/var/lib/apt/lists") if PACKAGE_LIST.match(os.path.basename(path))]
    none_of(lists + glob.glob("/var/cache/apt/archives/*.deb"))


def no_build_tree():
    none_of([path for path in BUILD_TREES if os.path.exists(path)])


def no_static_libraries():
    none_of([path for path in files_below(*set([PREFIX, os.path.realpath(sys.prefix)])) if path.endswith(".a")])


CHECKS = (
    ("command-python", command(("-c", "import sys; print(sys.version)"), sys.version, "python", "python" + MAJOR)),
    ("command-python-release", command(("-c", "import sys; print(sys.version)"), sys.version, "python" + LINE)),
    ("command-pip", command(("--version",), "pip ", "pip", "pip" + MAJOR)),
    ("command-pydoc", command(("sys",), "sys", "pydoc")),
    ("command-pydoc-major", command(("sys",), "sys", "pydoc" + MAJOR)),
    ("command-python-config", command(("--includes",), "-I", "python-config", "python%s-config" % MAJOR)),
    ("prefix", prefix),
    ("site-packages", site_packages),
    ("headers", headers),
    ("libpython", libpython),
    ("zlib", compresses("zlib")),
    ("bz2", compresses("bz2")),
    ("lzma", compresses("lzma")),
    ("zstd", compresses("compression.zstd")),
    ("sqlite3", sqlite),
    ("sqlite3-extensions", sqlite_extensions),
    ("ssl", secure_sockets),
    ("ca-certificates", ca_certificates),
    ("hashlib", hashlib),
    ("ctypes", ctypes),
    ("readline", readline),
    ("curses", curses),
    ("dbm-gnu", database("dbm.gnu", "gdbm")),
    ("dbm-ndbm", database("dbm.ndbm", "dbm")),
    ("expat", expat),
    ("threads", threads),
    ("multiprocessing", multiprocessing),
    ("utf-8", utf_8),
    ("time-zones", time_zones),
    ("zoneinfo", zoneinfo),
    ("services", services),
    ("pip", pip),
    ("setuptools", importable("setuptools")),
    ("wheel", importable("wheel")),
    ("venv", venv),
    ("compileall", byte_code),
    ("home", home),
    ("no-compiler", no_compiler),
    ("no-package-lists", no_package_lists),
    ("no-build-tree", no_build_tree),
    ("no-static-libraries", no_static_libraries),
)


def main():
    os.environ.setdefault("TERM", "xterm")  # as it is where somebody types
    # pip comes without byte code: it is compiled once here instead of at every start.
    os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp()
    try:
        for name, check in CHECKS:
            say(name, answer(check))
    finally:
        shutil.rmtree(os.environ["PYTHONPYCACHEPREFIX"])


def answer(check):
    try:
        check()
    except Exception:
        error = sys.exc_info()[1]
        if isinstance(error, AssertionError):
            return str(error) or "no reason given"
        return "%s: %s" % (error.__class__.__name__, error)
    return "ok"


if __name__ == "__main__":
    main()

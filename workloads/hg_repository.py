"""Makes a small repository for `hg status`: a changed file and an unknown one among many that are neither."""

import os
import subprocess
import sys

FOLDERS, FILES_EACH = 10, 10


def write(folder, name, text):
    file = open(os.path.join(folder, name), "w")
    try:
        file.write(text)
    finally:
        file.close()


def make(folder, hg):
    """Every file is committed but for the one that is new; one has other content than was committed."""

    def run(*arguments):
        subprocess.check_call([sys.executable, hg, "--cwd", folder, "--noninteractive"] + list(arguments))

    os.makedirs(folder)
    run("init")
    for number in range(FOLDERS):
        part = os.path.join(folder, "part%d" % number)
        os.mkdir(part)
        for name in range(FILES_EACH):
            write(part, "file%d.txt" % name, "%d %d\n" % (number, name))
    run("commit", "--addremove", "--quiet", "--user", "nobody", "--message", "files")
    write(os.path.join(folder, "part3"), "file3.txt", "longer than it was\n")
    write(os.path.join(folder, "part7"), "new.txt", "unknown\n")


def main():
    make(*sys.argv[1:])


if __name__ == "__main__":
    main()

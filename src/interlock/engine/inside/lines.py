"""Runs under a variant after its stacks were taken: which line of its source is each instruction?

Argument: JSON, a list of [file, first line, name, [instruction, ...]]. Prints the list of the lists of lines. The variant
compiles the source again and is asked itself, so that nothing here knows how a version stores lines. Written for 2.7 to
3.15. What cannot be found has the function's first line.
"""

import dis
import json
import os
import sys

FROZEN = "<frozen "


def source_of(name):
    """Return the path of a source file; frozen modules are those of the standard library."""
    if name.startswith(FROZEN):
        return os.path.join(os.path.dirname(os.__file__), *name[len(FROZEN) : -1].split(".")) + ".py"
    return name[:-1] if name.endswith((".pyc", ".pyo")) else name


def functions(code):
    """Return a code object and all in it."""
    codes = [code]
    for constant in code.co_consts:
        if hasattr(constant, "co_consts"):
            codes.extend(functions(constant))
    return codes


def compiled(path):
    """Return the code objects of a file; none if it cannot be read or compiled."""
    try:
        stream = open(path, "rb")
        try:
            return functions(compile(stream.read(), path, "exec", 0, 1))
        finally:
            stream.close()
    except (OSError, IOError, SyntaxError, ValueError):
        return []


def line_at(starts, instruction, first):
    """Return the line of the last start at or before an instruction."""
    line = first
    for offset, number in starts:
        if offset <= instruction and number is not None:
            line = number
    return line


def main():
    files, answer = {}, []
    for file, first, name, instructions in json.loads(sys.argv[1]):
        if file not in files:
            files[file] = compiled(source_of(file))
        codes = [
            code
            for code in files[file]
            if code.co_firstlineno == first and getattr(code, "co_qualname", code.co_name).startswith(name)
        ]
        starts = list(dis.findlinestarts(codes[0])) if codes else []
        answer.append([line_at(starts, instruction, first) for instruction in instructions])
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()

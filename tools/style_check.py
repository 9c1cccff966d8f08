#!/usr/bin/env python3
"""Style as a test: what a formatter cannot know, each ban with what to do instead.

Checks source (src, tests, tools, cmake): line length, tabs, trailing space, unfinished-work marks, sizes of files and
functions, a header's opening comment and guard, paths of one machine. Usage: style_check.py [FILE...]; default: all.
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("src", "tests", "tools", "cmake")
MAX_COLUMNS = 120
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:wo" r"rk|ro" r"ot|home/\w+)/")
EXCEPTION = re.compile(r"\bthrow\s+[\w:]+[({]")


def source_files():
    for folder in FOLDERS:
        for path, _, names in sorted(os.walk(os.path.join(ROOT, folder))):
            if "__pycache__" in path:
                continue
            for name in sorted(names):
                full = os.path.join(path, name)
                if name.endswith((".h", ".cc", ".inc", ".py", ".cmake", ".txt", ".sh")) or is_script(full):
                    yield full


def is_script(path):
    with open(path, "rb") as f:
        return f.read(2) == b"#!"


def function_lengths(lines):
    """(first line, length) of each function body that begins at column 0 or 2; an estimate from indentation."""
    start, indent = None, ""
    for number, line in enumerate(lines, 1):
        if start is None:
            opens = re.match(r"^( {0,2})(?! )[^/#}].*\{$", line)
            if opens and "(" in line and not re.match(r"^\s*(namespace|class|struct|enum|union|extern)\b", line):
                start, indent = number, opens.group(1)
            elif re.match(r"^ {4,}.*\) (const |override |noexcept )*\{$", line) and number > 1:
                continuation = re.match(r"^( {0,2})(?! )[^/#}{;]*\([^;{]*[,(]$", lines[number - 2])
                if continuation:
                    start, indent = number - 1, continuation.group(1)
        elif line in (indent + "}", indent + "};", indent + "});"):
            yield start, number - start + 1
            start = None
        elif line and not line.startswith(indent + " ") and not line.startswith(("#", indent + "public",
                                                                                indent + "private")):
            start = None


def check(path):
    relative = os.path.relpath(path, ROOT)
    with open(path, encoding="utf-8") as f:
        lines = f.read().split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    else:
        yield f"{relative}: end the file with a newline"
    code = path.endswith((".h", ".cc"))
    if len(lines) > MAX_FILE_LINES and not path.endswith(".txt"):
        yield f"{relative}: {len(lines)} lines; split it, the limit is {MAX_FILE_LINES}"
    for number, line in enumerate(lines, 1):
        where = f"{relative}:{number}"
        if len(line) > MAX_COLUMNS:
            yield f"{where}: {len(line)} columns, the limit is {MAX_COLUMNS}"
        if "\t" in line:
            yield f"{where}: a tab; use spaces"
        if line != line.rstrip():
            yield f"{where}: space at the end of the line"
        if UNFINISHED.search(line):
            yield f"{where}: unfinished work; finish it or file an issue"
        if MACHINE_PATH.search(line):
            yield f"{where}: a path of one machine; use a relative one or a setting"
        if code and EXCEPTION.search(line):
            yield f"{where}: an exception; return a Status"
    if path.endswith(".h"):
        if not lines or not lines[0].startswith("// "):
            yield f"{relative}:1: a header opens with what it is, as a comment"
        if "#pragma once" not in lines and not path.endswith("-inl.h"):
            yield f"{relative}: no #pragma once"
    if code:
        for start, length in function_lengths(lines):
            if length > MAX_FUNCTION_LINES:
                yield f"{relative}:{start}: a function of {length} lines; split it, the limit is {MAX_FUNCTION_LINES}"


def main():
    files = [os.path.abspath(f) for f in sys.argv[1:]] or list(source_files())
    problems = [problem for path in files for problem in check(path)]
    for problem in problems:
        print(problem)
    print(f"style check: {len(files)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

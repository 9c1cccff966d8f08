#!/usr/bin/env python3
"""Documents against the tree: paths, commands, flags and make targets that a document names must exist.

Reads README.md and docs/. A path is a word in backticks that begins with a folder of the tree; `*` and `{a,b}` may
stand in it. Flags (`--name`) must be declared in src/cli, by a script of the tree, or belong to a tool named below.
Relative links must lead somewhere.
"""

import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("src", "cmake", "tests", "testdata", "bench", "tools", "docs", ".ci")
BACKTICKS = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
FOREIGN_FLAGS = {"--help", "--version", "--tool", "--cachegrind", "--recursive", "--depth", "--branch"}


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def documents():
    yield from filter(os.path.exists, [os.path.join(ROOT, "README.md")])
    yield from sorted(glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True))


def known_flags():
    flags = set(FOREIGN_FLAGS)
    for pattern in ("src/cli/*.cc", "tools/**/*", "bench/**/*"):
        for path in glob.glob(os.path.join(ROOT, pattern), recursive=True):
            if os.path.isfile(path) and os.path.getsize(path) < 1_000_000:
                try:
                    flags.update(FLAG.findall(read(path)))
                except UnicodeDecodeError:
                    pass
    return flags


def make_targets():
    return set(re.findall(r"^([a-z]+):", read(os.path.join(ROOT, "Makefile")), re.MULTILINE))


def holds_a_file(path):
    """An empty folder is not in a clone: version control keeps files alone."""
    return os.path.isfile(path) or any(files for _, _, files in os.walk(path))


def path_exists(word):
    word = re.sub(r":\d+$", "", word.rstrip("/"))
    alternatives = [word]
    if match := re.search(r"\{([^}]*)\}", word):
        alternatives = [word[:match.start()] + part + word[match.end():] for part in match.group(1).split(",")]
    return all(any(holds_a_file(found) for found in glob.glob(os.path.join(ROOT, path), recursive=True))
               for path in alternatives)


def check(path, flags, targets):
    relative = os.path.relpath(path, ROOT)
    fenced = False
    for number, line in enumerate(read(path).split("\n"), 1):
        where = f"{relative}:{number}"
        fenced = fenced != line.startswith("```")
        for word in BACKTICKS.findall(line):
            first = word.split()[0]
            if first.split("/")[0] in FOLDERS and "/" in first and not path_exists(first):
                yield f"{where}: no {first} in the tree"
            if match := re.match(r"make ([a-z]+)$", word):
                if match.group(1) not in targets:
                    yield f"{where}: no make target {match.group(1)}"
        code = line if fenced else " ".join(BACKTICKS.findall(line))
        for flag in FLAG.findall(code):
            if "surety" in code or not fenced:
                if flag not in flags:
                    yield f"{where}: no flag {flag}"
        for link in LINK.findall(line):
            if "://" not in link and not os.path.exists(os.path.join(os.path.dirname(path), link)):
                yield f"{where}: the link {link} leads nowhere"


def main():
    flags, targets = known_flags(), make_targets()
    paths = list(documents())
    problems = [problem for path in paths for problem in check(path, flags, targets)]
    for problem in problems:
        print(problem)
    print(f"document check: {len(paths)} documents, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

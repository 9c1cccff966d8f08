#!/usr/bin/env python3
"""Reads every include of the source tree against layers.txt; there is no list of exceptions.

Rules: a module includes itself and the modules of its row; a row names only modules of lower levels; every folder in
src/ has a row; an include of our own is written from the source root; test-only folders (reference, testing) and test
libraries are included by tests, benchmarks, fuzz targets and each other alone. With --unused also lists what a row
allows but no file uses, as information.
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SRC = os.path.join(ROOT, "src")
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
TEST_FILE = re.compile(r"_(test|bench|counts|fuzz)\.cc$|/(reference|testing)/")
QUOTED_THIRD_PARTY = ("hwy/",)  # Highway re-includes files through its own headers and asks for quotes
TEST_LIBRARIES = ("gtest/", "gmock/", "rapidcheck", "benchmark/")


def read_table():
    """Module -> (level, set of modules that it may include)."""
    table = {}
    with open(os.path.join(ROOT, "layers.txt"), encoding="utf-8") as f:
        for line in f:
            fields = line.split()
            if fields and fields[0].isdigit():
                table[fields[1]] = (int(fields[0]), {x for x in fields[2:] if x != "-"})
    return table


def check_table(table, errors):
    for name, (level, allowed) in table.items():
        for other in allowed:
            if other not in table:
                errors.append(f"layers.txt: {name} may include {other}, which has no row")
            elif table[other][0] >= level:
                errors.append(f"layers.txt: {name} (level {level}) may not include {other} (level {table[other][0]})")
    for name in sorted(os.listdir(SRC)):
        if os.path.isdir(os.path.join(SRC, name)) and name not in table:
            errors.append(f"src/{name}: a module without a row in layers.txt")


def check_include(where, module, allowed, included, is_test, table, errors):
    other = included.split("/")[0]
    if included.startswith(QUOTED_THIRD_PARTY) or (is_test and included.startswith(TEST_LIBRARIES)):
        return
    if "/" not in included:
        errors.append(f"{where}: include \"{included}\" from the source root")
    elif other not in table:
        errors.append(f"{where}: {other} is no module of layers.txt")
    elif other != module and other not in allowed:
        errors.append(f"{where}: {module} may not include {other} ({included})")
    elif not os.path.exists(os.path.join(SRC, included)):
        errors.append(f"{where}: no file src/{included}")
    elif not is_test and re.search(r"/(reference|testing)/", included):
        errors.append(f"{where}: {included} is for tests only")


def main():
    errors, used, n_files = [], {}, 0
    table = read_table()
    check_table(table, errors)
    for folder, _, names in sorted(os.walk(SRC)):
        for name in sorted(names):
            if not name.endswith((".h", ".cc", ".inc")):
                continue
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, ROOT)
            module = relative.split(os.sep)[1]
            if module not in table:
                continue
            n_files += 1
            is_test = TEST_FILE.search(relative) is not None
            with open(path, encoding="utf-8") as f:
                for number, line in enumerate(f, 1):
                    match = INCLUDE.match(line)
                    if not match:
                        continue
                    where = f"{relative}:{number}"
                    if match.group(1):
                        check_include(where, module, table[module][1], match.group(1), is_test, table, errors)
                        used.setdefault(module, set()).add(match.group(1).split("/")[0])
                    elif not is_test and match.group(2).startswith(TEST_LIBRARIES):
                        errors.append(f"{where}: <{match.group(2)}> is for tests only")
    for error in errors:
        print(error)
    if "--unused" in sys.argv:
        for module in sorted(used):
            unused = table[module][1] - used[module]
            if unused:
                print(f"note: {module} may include, but does not: {' '.join(sorted(unused))}")
    print(f"layer check: {n_files} files, {len(errors)} violations")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())

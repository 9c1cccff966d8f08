#!/usr/bin/env python3
"""Counts the instructions that each CPU kernel takes, and holds them against testdata/kernels/instructions.tsv.

Usage: kernel_counts.py PROGRAM [--update]

PROGRAM is kernels_counts of a release build; it runs under valgrind's callgrind, which knows processors up to AVX2. A
case that takes over 3 % more than the table says fails, and so does one that only the table or only the program has;
one that takes over 3 % less is named, so that the table can follow. Skipped (77) where valgrind is absent or the table
is of another compiler, Highway or processor: their counts differ. --update writes the table anew. Needs nothing but
Python.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

TABLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "testdata", "kernels",
                     "instructions.tsv")
TOLERANCE = 0.03
SKIPPED = 77
CALL = "SuretyCountedCall"


def totals_of(folder):
    """Instructions of each counted call, in the order of the calls."""
    totals = []
    for number in range(1, len(os.listdir(folder)) + 1):
        path = os.path.join(folder, f"out.{number}")
        if not os.path.exists(path):
            break
        with open(path, encoding="utf-8", errors="replace") as f:
            text = f.read()
        if f"Trigger: --dump-after={CALL}" in text:
            totals.append(int(re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE).group(1)))
    return totals


def measure(program):
    """What the program was built with, and instructions a unit by (case, instruction set)."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", "--collect-atstart=no", f"--toggle-collect={CALL}", f"--dump-after={CALL}",
             "--callgrind-out-file=" + os.path.join(folder, "out"), program],
            capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{program} under valgrind ended with {done.returncode}:\n{done.stderr[-2000:]}")
        built_with, *lines = done.stdout.splitlines()
        totals = totals_of(folder)
    if len(totals) != len(lines):
        raise SystemExit(f"{len(lines)} cases were called, but {len(totals)} counted")
    counts = {}
    for line, total in zip(lines, totals):
        case, isa, n_units, unit = line.split("\t")
        counts[case, isa] = (total / int(n_units), unit)
    return built_with, counts


def read_table():
    with open(TABLE, encoding="utf-8") as f:
        built_with, *lines = f.read().splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return built_with.removeprefix("# "), {(case, isa): (float(n), unit) for case, isa, n, unit in rows}


def write_table(built_with, counts):
    os.makedirs(os.path.dirname(TABLE), exist_ok=True)
    with open(TABLE, "w", encoding="utf-8") as f:
        f.write(f"# {built_with}\n")
        f.write("# case, instruction set, instructions a unit, unit; tools/kernel_counts.py --update\n")
        for (case, isa), (n, unit) in sorted(counts.items()):
            f.write(f"{case}\t{isa}\t{n:.4g}\t{unit}\n")
    print(f"{TABLE}: {len(counts)} cases")


def isas_of_processor():
    """Those of the table that this processor has, by what the system says of it; elsewhere than on x86 none."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            flags = next((line.split() for line in f if line.startswith("flags")), [])
    except OSError:
        return set()
    return {isa for isa, flag in (("sse4", "sse4_2"), ("avx2", "avx2")) if flag in flags}


def compare(expected, found):
    """Lines about what differs, and whether any of it is a fault."""
    isas = {isa for _, isa in found} | isas_of_processor()
    lines, is_wrong = [], False
    for key in sorted(expected.keys() | found.keys()):
        name = " ".join(key)
        if key not in found:
            if key[1] in isas:
                lines.append(f"{name}: in the table, but the program has no such case")
                is_wrong = True
            continue
        if key not in expected:
            lines.append(f"{name}: not in the table")
            is_wrong = True
            continue
        ratio = found[key][0] / expected[key][0]
        if abs(ratio - 1) > TOLERANCE:
            lines.append(f"{name}: {found[key][0]:.4g} instructions a {found[key][1]}, the table says "
                         f"{expected[key][0]:.4g}: {'more' if ratio > 1 else 'less'} ({ratio:.3f} times)")
            is_wrong |= ratio > 1
    return lines, is_wrong


def main(argv):
    update = "--update" in argv
    names = [argument for argument in argv[1:] if argument != "--update"]
    if len(names) != 1 or names[0].startswith("-"):
        raise SystemExit(__doc__.strip())
    if shutil.which("valgrind") is None:
        print("skipped: no valgrind")
        return SKIPPED
    built_with, found = measure(names[0])
    if update:
        write_table(built_with, found)
        return 0
    of_table, expected = read_table()
    if built_with != of_table:
        print(f"skipped: the table is of {of_table}, this build of {built_with}")
        return SKIPPED
    lines, is_wrong = compare(expected, found)
    for line in lines:
        print(line)
    if lines:
        print("The table follows with: tools/kernel_counts.py build/bin/kernels_counts --update")
    print(f"{len(found)} cases, {'worse than the table' if is_wrong else 'none takes more than the table says'}")
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

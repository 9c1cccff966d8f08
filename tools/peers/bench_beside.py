#!/usr/bin/env python3
"""`surety bench` and the bench programs of llama.cpp or ik_llama.cpp on the same files, in turns, as ratios.

Usage: bench_beside.py SURETY PEER_BIN FILE... [--rounds 7] [--threads 2] [--variants "-fa 1;-fa 0;-fa 1 -rtr 1"]
                       [--cases pp512,pp2048,tg,tg@4096,tg@16384,b8,b16] [--json]

PEER_BIN is the folder with llama-bench and llama-batched-bench. Cases: pp: a prompt of so many tokens; tg: decode
behind nothing or behind so many tokens; b: decode of so many sequences behind 64 tokens each. Every round runs ours
and then each variant of the peer once; medians of the rounds, the peer's best variant of each case. Needs nothing but
Python; a Markdown table on standard output, or with --json one object; each figure on standard error as it comes.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

GENERATED, BATCH_PROMPT, BATCH_GENERATED = 64, 64, 32


def lines_of(command):
    with tempfile.TemporaryDirectory() as folder:  # for the log that it writes where it stands
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout + done.stderr


def ours(args, file, case):
    """Tokens a second, and the share of the machine's limit."""
    kind, n = re.match(r"(pp|tg@?|b)(\d*)$", case).groups()
    flags = {"pp": ["--prompt", n, "--gen", "1", "--depth", "0", "--sequences", "1"],
             "tg": ["--prompt", "1", "--gen", str(GENERATED), "--depth", "0", "--sequences", "1"],
             "tg@": ["--prompt", "1", "--gen", str(GENERATED), "--depth", n, "--sequences", "1"],
             "b": ["--prompt", "1", "--gen", str(BATCH_GENERATED), "--depth", str(BATCH_PROMPT),
                   "--sequences", n]}[kind]
    report = json.loads(subprocess.run(
        [args.surety, "bench", "-m", file, "-t", str(args.threads), "--repetitions", "1", "--json", *flags],
        capture_output=True, text=True, check=True).stdout)
    key = "prefill_tok_per_s" if kind == "pp" else "decode_tok_per_s"
    row = next(r for r in reversed(report["results"]) if key in r and (kind != "pp" or r["prompt_tokens"] == int(n)))
    return row[key], row["share_of_roof"]


def theirs(args, file, case, variant):
    kind, n = re.match(r"(pp|tg@?|b)(\d*)$", case).groups()
    if kind == "b":
        text = lines_of([os.path.join(args.peer, "llama-batched-bench"), "-m", os.path.abspath(file),
                         "-t", str(args.threads), "-c", "4096", "-npp", str(BATCH_PROMPT),
                         "-ntg", str(BATCH_GENERATED), "-npl", n, *batched(variant)])
        cells = [line.split("|") for line in text.splitlines() if re.match(r"\|\s+\d+ \|", line)]
        return float(cells[-1][8])
    flags = {"pp": ["-p", n, "-n", "0"], "tg": ["-p", "0", "-n", str(GENERATED)],
             "tg@": ["-p", "0", "-n", "0", *args.depth_flags.format(n=n, g=GENERATED).split()]}[kind]
    text = subprocess.run([os.path.join(args.peer, "llama-bench"), "-m", file, "-t", str(args.threads), "-o", "json",
                           "-r", "1", *flags, *variant.split()], capture_output=True, text=True, check=True).stdout
    return json.loads(text)[-1]["avg_ts"]


def batched(variant):
    """llama-batched-bench has switches where llama-bench has numbers."""
    words, flags = variant.split(), []
    for name, value in zip(words[::2], words[1::2]):
        if name == "-fa":
            flags += ["-fa", "on" if value == "1" else "off"]
        elif name == "-rtr" and value == "1":
            flags += ["-rtr"]
        elif name == "-mmp" and value == "0":
            flags += ["--no-mmap"]
        elif name == "-thp" and value == "1":
            flags += ["-thp"]
    return flags


def measure(args, file, case):
    own, shares, peers = [], [], {variant: [] for variant in args.variants.split(";")}
    for _ in range(args.rounds):
        rate, share = ours(args, file, case)
        own.append(rate)
        shares.append(share)
        for variant, rates in peers.items():
            rates.append(theirs(args, file, case, variant))
    best = max(peers, key=lambda variant: statistics.median(peers[variant]))
    row = {"file": os.path.basename(file), "case": case, "surety": round(statistics.median(own), 1),
           "share_of_roof": round(statistics.median(shares), 3), "peer": round(statistics.median(peers[best]), 1),
           "variant": best, "ratio": round(statistics.median(own) / statistics.median(peers[best]), 2),
           "surety_all": own, "peer_all": peers[best]}
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("surety")
    parser.add_argument("peer", help="the folder with llama-bench and llama-batched-bench")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--cases", default="pp512,pp2048,tg,tg@4096,tg@16384,b8,b16")
    parser.add_argument("--variants", default="-fa 1;-fa 0;-fa 1 -rtr 1")
    parser.add_argument("--depth-flags", default="-gp {n},{g}", help='ik_llama.cpp\'s; llama.cpp\'s: "-d {n} -n {g}"')
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.peer = os.path.abspath(args.peer)
    rows = [measure(args, file, case) for file in args.files for case in args.cases.split(",")]
    if args.json:
        print(json.dumps({"threads": args.threads, "rounds": args.rounds, "rows": rows}))
        return
    print("| File | Case | surety tok/s | of the limit | peer tok/s | its variant | Ratio |")
    print("|---|---|---|---|---|---|---|")
    for r in rows:
        print(f"| {r['file']} | {r['case']} | {r['surety']} | {100 * r['share_of_roof']:.0f} % | {r['peer']} | "
              f"`{r['variant']}` | {r['ratio']} |")


if __name__ == "__main__":
    main()

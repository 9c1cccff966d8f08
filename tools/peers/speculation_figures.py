#!/usr/bin/env python3
"""What speculation is worth by kind of text: decode speed with it and without, in turns, alone and in a batch.

Usage: speculation_figures.py SURETY MODEL [--serve "FLAGS"] [--against "FLAGS"]
                              [--llama LLAMA_SERVER --gguf FILE [--llama-draft FILE]]
                              [--pairs 5] [--rounds 3] [--kinds forms,letters,...] [--tokens 128] [--batch 16] [--json]

Starts `SURETY serve` and asks each prompt twice, with `speculate` false and true, in turns; medians of tokens a second
of decoding (one stream) or of all streams by the clock, each busy with one answer after the other (--batch), of the
ratio of each pair with its standard error, tokens a pass and the share of drafted tokens that held. Prompts are read
before, under a salt of their own each, so nothing but the request's own text is looked up; only `repeat` asks for
similar letters in one scope. --serve: further flags of `surety serve`, such as "--draft-model NAME". --against: flags
of a second server, with drafts of its own, that stands in for the one without. With --llama,
llama-server runs the same prompts, plain and for each of its lookup settings in turns, and with --llama-draft for a
draft model's. Needs nothing but Python; a Markdown table, or with --json one object.
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import random
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import time

NAMES = ("Anna Berg", "Luis Ortega", "Mei Tanaka", "Omar Haddad", "Ruth Klein", "Piotr Nowak", "Ines Silva", "Tom Reed")
CITIES = ("Lyon", "Graz", "Porto", "Leeds", "Turin", "Ghent", "Bergen", "Split")
PRODUCTS = ("current account", "savings account", "car loan", "home loan", "credit card")
WORDS = ("river stone market letter garden window bridge summer winter silver copper harbor forest mountain valley "
         "engine paper candle mirror ladder").split()
LLAMA_SETTINGS = {"ngram-simple": ["--spec-type", "ngram-simple"],
                  "ngram-simple 4/16": ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "4",
                                        "--spec-ngram-simple-size-m", "16"]}


def llama_settings(args):
    if not args.llama_draft:
        return LLAMA_SETTINGS
    draft = ["--spec-draft-model", args.llama_draft, "--spec-type", "draft-simple"]
    return {"draft": draft, "draft 8": draft + ["--spec-draft-n-max", "8"]}


def spread(ratios):
    """The median ratio and the standard error of it, as if they lay normally."""
    error = 1.25 * statistics.stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else None
    return {"ratio": round(statistics.median(ratios), 3), "ratio_error": error and round(error, 3)}


def forms(draw):
    def record(name):
        return json.dumps({"customer": {"name": name, "city": draw.choice(CITIES), "country": "EU"},
                           "product": draw.choice(PRODUCTS), "identity_checked": True, "documents_complete": True,
                           "risk_class": "standard", "amount_eur": draw.randint(1, 90) * 100, "decision": "approved",
                           "next_step": "send contract by mail"}, indent=2)
    names = draw.sample(NAMES, 4)
    text = "".join(f"Case of {name} as JSON:\n{record(name)}\n\n" for name in names[:3])
    return {"prompt": text + f"Case of {names[3]} as JSON:\n", "temperature": 0, "stop": ["\n\n"]}


def letters(draw):
    def letter(name):
        return (f"Dear {name},\n\nthank you for your request about the {draw.choice(PRODUCTS)}. We have received all "
                "documents that we need and will answer in writing within ten working days. You do not have to do "
                "anything until then. If your address or your income has changed since your last visit, please tell "
                f"your branch in {draw.choice(CITIES)}.\n\nYours sincerely,\nThe customer service\n\n---\n\n")
    names = draw.sample(NAMES, 3)
    return {"prompt": letter(names[0]) + letter(names[1]) + f"Dear {names[2]},\n\n", "temperature": 0}


def quotes(draw):
    text = " ".join(
        f"The {draw.choice(PRODUCTS)} of {draw.choice(NAMES)} in {draw.choice(CITIES)} was opened in "
        f"{draw.randint(1990, 2020)} and has a limit of {draw.randint(1, 90) * 100} euros, which the branch "
        f"{draw.choice(('raised', 'confirmed', 'lowered'))} in {draw.randint(2021, 2025)}." for _ in range(4))
    return {"prompt": f"Source:\n{text}\n\nSummary that quotes the source word for word:\n\"{text[:12]}",
            "temperature": 0}


def schema(draw):
    fields = {name: {"enum": list(values)} for name, values in
              (("customer_name", NAMES), ("customer_city", CITIES), ("requested_product", PRODUCTS))}
    fields |= {"identity_checked": {"type": "boolean"}, "documents_complete": {"type": "boolean"},
               "risk_classification": {"enum": ["standard", "raised", "high"]},
               "next_processing_step": {"enum": ["send contract by mail", "ask for further documents"]}}
    shape = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    return {"messages": [{"role": "user", "content": f"A record as JSON: {draw.choice(NAMES)} in "
                                                     f"{draw.choice(CITIES)} wants a {draw.choice(PRODUCTS)}."}],
            "temperature": 0,
            "response_format": {"type": "json_schema", "json_schema": {"name": "r", "strict": True, "schema": shape}}}


def repeat(draw):
    return {"messages": [{"role": "user", "content": f"Write a short letter of a bank to {draw.choice(NAMES)}: the "
                                                     f"{draw.choice(PRODUCTS)} is approved."}], "temperature": 0}


def free(draw):
    return {"prompt": " ".join(draw.choice(WORDS) for _ in range(120)), "temperature": 1.0,
            "seed": draw.randint(1, 2**31)}


def story(draw):
    return {"prompt": f"{draw.choice(NAMES)} walked through {draw.choice(CITIES)} at night and thought about",
            "temperature": 0.8, "seed": draw.randint(1, 2**31)}


def answers(draw):
    question = draw.choice((
        "How do I tell my bank that I have moved, and what will it ask me for?",
        "Why was my card payment declined although there is money in the account?",
        "What should I look at before I take out a loan for a used car?",
        "A customer says that a transfer went to the wrong person. What happens next?",
        "What is the difference between a reversal and a refund?",
        "How does a bank decide how much somebody may borrow for a home?",
        "Which documents does a small company need to open an account?",
        "Write three sentences that tell a customer why a transfer takes two days."))
    return {"messages": [{"role": "user", "content": f"{draw.choice(NAMES)} asks: {question}"}], "temperature": 0}


KINDS = {"forms": forms, "letters": letters, "quotes": quotes, "schema": schema, "repeat": repeat, "answers": answers,
         "story": story, "free": free}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Target:
    """A server that is asked; `off`: what a body has to make it draft nothing."""

    def __init__(self, name, command, port, off):
        self.name, self.port, self.off = name, port, off
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.model = ""

    def wait(self, model):
        self.model = model
        for _ in range(600):
            try:
                if self.request("GET", "/health", None)[0] == 200:
                    return self
            except OSError:
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise SystemExit(f"{self.name} did not start")

    def request(self, method, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            connection.request(method, path, None if body is None else json.dumps(body),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def ask(self, body, n, drafts, salt):
        body = {"model": self.model, **body, "max_tokens": n}
        if self.off is not None:
            body |= {"timings": True, "cache_salt": salt, "ignore_eos": "response_format" not in body}
            if not drafts:
                body |= self.off
        else:
            body |= {"cache_prompt": True, "ignore_eos": "response_format" not in body}
        path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
        begin = time.monotonic()
        status, text = self.request("POST", path, body)
        if status != 200:
            raise SystemExit(f"{self.name}: {status} {text.decode()}")
        answer = json.loads(text)
        timings = answer.get("timings", {})
        tokens = answer["usage"]["completion_tokens"]
        decode_ms = timings.get("decode_ms", timings.get("predicted_ms", 0))
        # Of our decode time the first token is no part; llama-server counts it.
        counted = tokens - (1 if "decode_ms" in timings else 0)
        return {"tokens": tokens, "rate": counted / decode_ms * 1000 if decode_ms else 0,
                "drafted": timings.get("draft_n", 0), "held": timings.get("draft_n_accepted", 0),
                "seconds": time.monotonic() - begin,
                "text": answer["choices"][0].get("text") or answer["choices"][0].get("message", {}).get("content")}


def kept_busy(asks, n_streams):
    """Answers asks from `n_streams` threads, each of which takes the next one when its own has ended."""
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(n_streams) as pool:
        results = list(pool.map(lambda ask: ask(), asks))
    return results, time.monotonic() - begin


def salt_of(kind, mode, i):
    return f"{kind}-{mode}" + ("" if kind == "repeat" else f"-{i}")


def drafts_of(results):
    tokens = sum(r["tokens"] - 1 for r in results)
    drafted, held = sum(r["drafted"] for r in results), sum(r["held"] for r in results)
    return {"tokens_per_pass": round(tokens / max(1, tokens - held), 2),
            "acceptance": round(held / drafted, 3) if drafted else None, "drafted": drafted, "held": held}


def measure_alone(plain, fast, kind, args):
    """Pairs of one prompt: without drafts on `plain`, with them on `fast` (the same server, or two)."""
    slow, quick, n_equal = [], [], 0
    for i in range(args.pairs + 1):
        body = KINDS[kind](random.Random(i))
        pair = []
        for target, drafts in ((plain, False), (fast, True)):
            salt = salt_of(kind, drafts, i)
            target.ask(body, 1, drafts, salt)
            pair.append(target.ask(body, args.tokens, drafts, salt))
        if i > 0:  # the first warms up
            slow.append(pair[0])
            quick.append(pair[1])
            n_equal += pair[0]["text"] == pair[1]["text"]
    return {"kind": kind, "batch": 1, "plain": round(statistics.median(r["rate"] for r in slow), 1),
            "drafted_speed": round(statistics.median(r["rate"] for r in quick), 1),
            **spread([q["rate"] / s["rate"] for s, q in zip(slow, quick)]),
            "same_texts": f"{n_equal}/{len(slow)}", **drafts_of(quick)}


def measure_batch(plain, fast, kind, args):
    slow, quick, ratios, results, n_equal = [], [], [], [], 0
    n = args.batch * args.per_stream
    for r in range(args.rounds):
        bodies = [KINDS[kind](random.Random(1000 * (r + 1) + i)) for i in range(n)]
        texts, rates = {}, {}
        order = ((plain, False), (fast, True))
        for target, drafts in (order if r % 2 == 0 else order[::-1]):
            salts = [salt_of(kind, drafts, f"b{r}-{i}") for i in range(n)]
            kept_busy([lambda b=b, s=s: target.ask(b, 1, drafts, s) for b, s in zip(bodies, salts)], args.batch)
            done, seconds = kept_busy([lambda b=b, s=s: target.ask(b, args.tokens, drafts, s)
                                       for b, s in zip(bodies, salts)], args.batch)
            rates[drafts] = sum(d["tokens"] for d in done) / seconds
            texts[drafts] = [d["text"] for d in done]
            results += done if drafts else []
        slow.append(rates[False])
        quick.append(rates[True])
        ratios.append(rates[True] / rates[False])
        n_equal += sum(a == b for a, b in zip(texts[False], texts[True]))
    return {"kind": kind, "batch": args.batch, "plain": round(statistics.median(slow), 1),
            "drafted_speed": round(statistics.median(quick), 1), **spread(ratios),
            "same_texts": f"{n_equal}/{n * args.rounds}", **drafts_of(results)}


def rows_of(name, plain, fast, args):
    for kind in args.kinds.split(","):
        for batch, wanted in ((1, args.pairs), (args.batch, args.rounds)):
            if wanted > 0:
                measure = measure_alone if batch == 1 else measure_batch
                row = {"program": name, **measure(plain, fast, kind, args)}
                print(json.dumps(row), file=sys.stderr, flush=True)
                yield row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("surety")
    parser.add_argument("model")
    parser.add_argument("--llama", help="llama-server, to be measured beside it")
    parser.add_argument("--gguf", help="the model's file, for llama-server")
    parser.add_argument("--serve", default="", help="further flags of surety serve, in one text")
    parser.add_argument("--against", help="flags of a second server, to compare with instead of no drafts")
    parser.add_argument("--llama-draft", help="its file, for llama-server: its draft mode in place of its lookup")
    parser.add_argument("--pairs", type=int, default=5, help="of one prompt alone; 0: none")
    parser.add_argument("--rounds", type=int, default=3, help="of --batch prompts; 0: none")
    parser.add_argument("--batch", type=int, default=16, help="streams that run together")
    parser.add_argument("--per-stream", type=int, default=3, help="answers of each in a round, one after the other")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows, targets = [], []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # or the servers would stay
    try:
        def surety(flags, off):
            port = free_port()
            targets.append(Target("surety", [args.surety, "serve", "-m", args.model, "--port", str(port), "-c", "4096",
                                             "--parallel", str(args.batch), "-t", str(args.threads),
                                             *shlex.split(flags)], port, off))
            return targets[-1].wait(args.model)
        ours = surety(args.serve, {"speculate": False})
        plain = ours if args.against is None else surety(args.against, {})
        rows += rows_of("surety", plain, ours, args)
        if args.llama:
            def llama(*options):
                port = free_port()
                command = [args.llama, "-m", args.gguf, "--port", str(port), "-t", str(args.threads), "-tb",
                           str(args.threads), "-c", str(1024 * args.batch), "-np", str(args.batch), *options]
                targets.append(Target("llama-server", command, port, None))
                return targets[-1].wait(args.model)
            plain = llama()
            for name, options in llama_settings(args).items():
                fast = llama(*options)
                rows += rows_of("llama-server " + name, plain, fast, args)
                fast.process.terminate()
                fast.process.wait()
    finally:
        for target in targets:
            target.process.terminate()
            target.process.wait()
    if args.json:
        print(json.dumps({"model": args.model, "threads": args.threads, "tokens": args.tokens, "rows": rows}))
        return
    print(f"{args.model}, {args.threads} threads, {args.tokens} tokens an answer\n")
    print("| Program | Text | Streams | Plain tok/s | With drafts | Ratio | ± | Tokens a pass | Held | Same texts |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for r in rows:
        held = "-" if r["acceptance"] is None else f"{100 * r['acceptance']:.0f} %"
        print(f"| {r['program']} | {r['kind']} | {r['batch']} | {r['plain']} | {r['drafted_speed']} | {r['ratio']} | "
              f"{r['ratio_error'] or ''} | {r['tokens_per_pass']} | {held} | {r['same_texts']} |")


if __name__ == "__main__":
    main()

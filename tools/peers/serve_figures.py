#!/usr/bin/env python3
"""Figures of an OpenAI-compatible server that people feel, for ours and for its peers alike:

  throughput   tokens a second, all streams together, with 1 and with 16 streams
  interference the gap between two tokens of a running stream, alone and while a prompt of about 2,000 tokens arrives
  prefix       time to first token of a prompt of about 2,000 tokens, cold and when its beginning is shared

Usage: serve_figures.py URL MODEL [--repetitions 5]. Needs nothing but Python. Prints one JSON object; gaps and times in
milliseconds, medians and the 99th percentile by nearest rank.
"""

import argparse
import http.client
import json
import math
import statistics
import threading
import time
import urllib.parse

WORDS = ("river stone market letter garden window bridge summer winter silver copper harbor forest mountain valley "
         "engine paper candle mirror ladder").split()


def prompt_of(n_words, seed):
    """Words in an order that depends on the seed; of most tokenizers a word is one token, or a little more."""
    text, state = [], seed * 2654435761 % 2**32
    for _ in range(n_words):
        state = (state * 1664525 + 1013904223) % 2**32
        text.append(WORDS[state >> 16 & 15])
    return " ".join(text)


class Target:
    def __init__(self, url, model):
        parts = urllib.parse.urlsplit(url)
        self.host, self.port, self.model = parts.hostname, parts.port, model

    def stream(self, prompt, max_tokens, stamps, usage=None):
        """Streams an answer; appends the time of each piece of text to `stamps`, the time of the start first."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=600)
        body = {"model": self.model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stream": True,
                "stream_options": {"include_usage": True}}
        stamps.append(time.monotonic())
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise SystemExit(f"{response.status}: {response.read().decode()}")
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            if chunk.get("usage") and usage is not None:
                usage.update(chunk["usage"])
            if chunk["choices"] and chunk["choices"][0].get("text"):
                stamps.append(time.monotonic())
        connection.close()
        return stamps


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[max(1, math.ceil(percent * len(ordered) / 100)) - 1]


def gaps(stamps):
    return [1000 * (b - a) for a, b in zip(stamps[1:], stamps[2:])]


def throughput(target, n_streams, max_tokens, seed):
    usages, stamps = [{} for _ in range(n_streams)], [[] for _ in range(n_streams)]
    threads = [threading.Thread(target=target.stream, args=(prompt_of(32, seed + i), max_tokens, stamps[i], usages[i]))
               for i in range(n_streams)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - begin
    # A server that does not tell usage in a stream is given a token for each piece of text.
    return sum(u.get("completion_tokens", len(s) - 1) for u, s in zip(usages, stamps)) / seconds


def interference(target, n_long, seed):
    alone = gaps(target.stream(prompt_of(32, seed), 96, []))
    stamps, arrived = [], []
    running = threading.Thread(target=target.stream, args=(prompt_of(32, seed + 1), 400, stamps))
    running.start()
    while len(stamps) < 10:
        time.sleep(0.005)
    target.stream(prompt_of(n_long, seed + 2), 1, arrived)
    running.join()
    during = [1000 * (b - a) for a, b in zip(stamps[1:], stamps[2:]) if arrived[0] <= b and a <= arrived[-1]]
    return alone, during, 1000 * (arrived[-1] - arrived[0])


def prefix(target, n_long, seed):
    shared = prompt_of(n_long, seed)
    cold = target.stream(shared + " one", 1, [])
    warm = target.stream(shared + " two", 1, [])
    return 1000 * (cold[1] - cold[0]), 1000 * (warm[1] - warm[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--long", type=int, default=1800, help="words of the long prompt")
    args = parser.parse_args()
    target = Target(args.url, args.model)
    target.stream(prompt_of(64, 1), 32, [])
    seeds = range(1000, 1000 + 100 * args.repetitions, 100)
    one = [throughput(target, 1, 64, s) for s in seeds]
    sixteen = [throughput(target, 16, 64, s + 10) for s in seeds]
    idle, during, long_ttft = [], [], []
    for s in seeds:
        a, d, t = interference(target, args.long, s + 30)
        idle += a
        during += d
        long_ttft.append(t)
    pairs = [prefix(target, args.long, s + 50) for s in seeds]
    print(json.dumps({
        "tok_per_s_1": round(statistics.median(one), 1),
        "tok_per_s_16": round(statistics.median(sixteen), 1),
        "itl_idle_p50_ms": round(percentile(idle, 50), 2),
        "itl_idle_p99_ms": round(percentile(idle, 99), 2),
        "itl_during_prompt_p50_ms": round(percentile(during, 50), 2),
        "itl_during_prompt_p99_ms": round(percentile(during, 99), 2),
        "itl_during_prompt_samples": len(during),
        "ttft_long_beside_stream_ms": round(statistics.median(long_ttft), 1),
        "ttft_cold_ms": round(statistics.median(c for c, _ in pairs), 1),
        "ttft_shared_prefix_ms": round(statistics.median(w for _, w in pairs), 1),
        "ttft_ratio": round(statistics.median(c / w for c, w in pairs), 1),
    }))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""surety probe: against servers that leak on purpose, and against surety serve, which must not."""

import json
import os
import signal
import sys
import time
import unittest

import common
from common import MODEL, EndToEnd, measured, start
from scripted_server import Handler, ScriptedServer
from serve_test import Server

COLD_MS, HIT_MS = 40, 8


class CachingHandler(Handler):
    """Remembers prompts by what the server's script names ("key", "salt"), and answers sooner what it remembers."""

    def answer(self, body, script):
        if script.get("refuses_salt") and "cache_salt" in body:
            self.plain(400, {"error": {"message": "unknown parameter cache_salt"}})
            return True
        key = self.server.requests[-1]["headers"].get("authorization")
        scope = (key if "key" in script["scope"] else "", body.get("cache_salt") if "salt" in script["scope"] else "")
        prompt = body.get("prompt") or body["messages"][0]["content"]
        hit = script.get("caches", True) and (scope, prompt) in self.server.seen
        self.server.seen.add((scope, prompt))
        time.sleep((HIT_MS if hit else COLD_MS) / 1e3)
        words = len(prompt.split())
        usage = {"prompt_tokens": words, "completion_tokens": 1}
        if script.get("counts", True):
            usage["prompt_tokens_details"] = {"cached_tokens": words if hit else 0}
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.chunk(self.event({"text": "x", "delta": {"content": "x"}, "finish_reason": "length"}))
        self.chunk(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")
        return True


@measured
class ProbeTest(EndToEnd):
    def serve(self, **script):
        server = ScriptedServer(**script)
        server.RequestHandlerClass, server.seen = CachingHandler, set()
        self.addCleanup(server.stop)
        return server

    def probe(self, server, *args):
        """Exit code and report."""
        outcome = common.surety("probe", "--url", server.url, "--key", "a", "--other-key", "b", "--rounds", 12,
                                "--prompt-tokens", 40, "--json", *args)
        self.assertIn(outcome.code, (0, 3, 4), outcome.err)
        report = outcome.json()
        self.documented(report)
        self.assertEqual(report["answer"], {0: "no_leak", 3: "leak", 4: "cannot_tell"}[outcome.code])
        return outcome.code, report

    def test_a_server_that_keeps_callers_and_salts_apart_is_cleared(self):
        for counts in (True, False):
            # The sleeps of a busy machine's server may hide a hit; then the answer must say so.
            code, report = self.probe(self.serve(scope=("key", "salt"), counts=counts), "--significance", 0.002)
            if code == 4:
                self.assertIn("noisy" if counts else "", report["reason"])
                continue
            self.assertEqual(code, 0, report)
            self.assertEqual(report["counts_tokens"], counts)
            self.assertEqual([c["kind"] for c in report["comparisons"]], ["other_key", "other_key_salt", "other_salt"])
            self.assertAlmostEqual(report["control"]["faster_ms"], COLD_MS - HIT_MS, delta=15)

    def test_a_cache_shared_between_keys_is_found(self):
        for endpoint in ("completions", "chat"):
            code, report = self.probe(self.serve(scope=("salt",)), "--endpoint", endpoint)
            self.assertEqual(code, 3, report)
            answers = {c["kind"]: c["answer"] for c in report["comparisons"]}
            self.assertEqual((answers["other_key"], answers["other_key_salt"]), ("leak", "leak"))
            self.assertEqual(report["comparisons"][0]["rounds_with_hits"], 12)
            self.assertIn("cached tokens", report["reason"])

    def test_it_is_found_by_times_alone(self):
        code, report = self.probe(self.serve(scope=("salt",), counts=False))
        self.assertEqual(code, 3, report)
        self.assertFalse(report["counts_tokens"])
        self.assertIn("time to the first token", report["reason"])
        self.assertGreater(report["comparisons"][0]["effect"], 0.8)

    def test_a_salt_that_is_ignored_or_refused(self):
        code, report = self.probe(self.serve(scope=("key",)))
        self.assertEqual(code, 3)
        self.assertEqual(report["comparisons"][2]["answer"], "leak")
        self.assertEqual(report["comparisons"][0]["rounds_with_hits"], 0)
        _, report = self.probe(self.serve(scope=("key",), refuses_salt=True))
        self.assertEqual([c["kind"] for c in report["comparisons"]], ["other_key"])
        self.assertFalse(report["with_salt"])

    def test_without_a_cache_one_cannot_tell(self):
        code, report = self.probe(self.serve(scope=("key", "salt"), caches=False))
        self.assertEqual(code, 4, report)
        self.assertIn("own prompt", report["reason"])

    def test_the_table(self):
        server = self.serve(scope=())
        outcome = common.surety("probe", "--url", server.url, "--key", "a", "--other-key", "b", "--rounds", 12)
        self.assertEqual(outcome.code, 3, outcome.err)
        for word in ("other_key_salt", "effect", "leak: other_key:"):
            self.assertIn(word, outcome.out)

    def test_keys_come_from_the_environment_and_go_to_the_server(self):
        server = self.serve(scope=("key", "salt"))
        outcome = common.surety("probe", "--url", server.url, "--rounds", 12, "--no-salt",
                                env={"SURETY_PROBE_KEY": "k1", "SURETY_PROBE_OTHER_KEY": "k2"})
        self.assertIn(outcome.code, (0, 3, 4), outcome.err)
        seen = {r["headers"].get("authorization") for r in server.requests}
        self.assertEqual(seen, {"Bearer k1", "Bearer k2"})
        self.assertFalse(any("cache_salt" in r["body"] for r in server.requests))

    def test_mistakes_and_failures(self):
        self.fails(2, "probe", "--key", "a", says="two callers")
        self.fails(2, "probe", "--key", "a", "--other-key", "a", says="--other-key")
        self.fails(2, "probe", "--key", "a", "--other-key", "b", "--rounds", 5, says="--rounds")
        server = ScriptedServer(mode="error")
        self.addCleanup(server.stop)
        self.fails(1, "probe", "--url", server.url, "--key", "a", "--other-key", "b", says="it broke")

    def test_an_interrupt_ends_it(self):
        server = self.serve(scope=("key", "salt"))
        process = start("probe", "--url", server.url, "--key", "a", "--other-key", "b", "--rounds", "10000")
        deadline = time.monotonic() + 20
        while len(server.requests) < 5 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
        self.assertEqual(process.returncode, 130, err)

    def test_surety_serve_does_not_leak(self):
        if common.model_path() is None:
            self.skipTest(f"{MODEL} is not on this machine")
        keys = self.path("keys.jsonl")
        key = [self.ok("keys", "add", "--file", keys, "--name", name, "--tenant", name).out.strip()
               for name in ("one", "two")]
        server = Server(self, "--api-keys", keys)
        outcome = common.surety("probe", "--url", f"http://127.0.0.1:{server.port}", "--key", key[0], "--other-key",
                                key[1], "--rounds", 12, "--prompt-tokens", 160, "--significance", 0.002, "--json")
        self.assertIn(outcome.code, (0, 4), outcome.out + outcome.err)
        report = outcome.json()
        self.documented(report)
        self.assertEqual(report["control"]["rounds_with_hits"], 12)
        for comparison in report["comparisons"]:
            self.assertEqual((comparison["rounds_with_hits"], comparison["most_cached_tokens"]), (0, 0))
        if outcome.code == 4:
            self.assertIn("noisy", report["reason"])  # of the machine: nothing was found


if __name__ == "__main__":
    if not os.path.exists(common.BINARY):
        sys.exit(f"{common.BINARY} is not built")
    unittest.main(verbosity=2)

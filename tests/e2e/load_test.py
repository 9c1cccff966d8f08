#!/usr/bin/env python3
"""surety load against a server that answers by script, with delays that are known beforehand."""

import collections
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

import common
from common import EndToEnd, measured, start
from scripted_server import ScriptedServer

# How far a measured latency may lie from the script's: the server sleeps at least as long as it says, and on a busy
# machine its thread and the client wake some milliseconds late.
LATE_MS = 25


def nearest_rank(values, percent):
    return sorted(values)[max(1, math.ceil(percent * len(values) / 100)) - 1]


@measured
class LoadTest(EndToEnd):
    def serve(self, **script):
        server = ScriptedServer(**script)
        self.addCleanup(server.stop)
        return server

    def load(self, server, *args, code=0):
        """The report and the records of a run. What a busy machine sent late is no fault of the program, and said."""
        records = self.path("records.jsonl")
        outcome = common.surety("load", "--url", server.url, "--json", "--records", records, *args)
        report = outcome.json()
        late = [reason for reason in report["invalid_reasons"] if reason.startswith("requests were sent too late")]
        if late:
            report["invalid_reasons"].remove(late[0])
            report["valid"] = not report["invalid_reasons"]
            self.assertEqual(outcome.code, 1)
        if not late or code != 0:
            self.assertEqual(outcome.code, code, (outcome.out, outcome.err))
        self.documented(report)
        with open(records, encoding="utf-8") as f:
            rows = [json.loads(line) for line in f]
        for row in rows:
            self.documented(row)
        return report, rows

    def near(self, summary, expected):
        self.assertGreaterEqual(summary["p50"], expected - 1, summary)
        self.assertLessEqual(summary["p50"], expected + LATE_MS, summary)

    def test_latencies_are_those_of_the_script(self):
        server = self.serve(first_ms=80, gap_ms=30, chunks=8)
        report, rows = self.load(server, "--rate", 15, "--requests", 40, "--arrivals", "constant")
        self.assertTrue(report["valid"] and not report["interrupted"])
        self.assertEqual((report["arrivals"], report["outcomes"]["ok"], report["loop"]), (40, 40, "open"))
        self.near(report["ttft_ms"], 80)
        self.near(report["service_ttft_ms"], 80)
        self.assertAlmostEqual(report["tpot_ms"]["p50"], 30, delta=3)
        self.assertAlmostEqual(report["itl_ms"]["p50"], 30, delta=3)
        self.assertEqual(report["itl_ms"]["count"], 40 * 7)
        self.near(report["e2e_ms"], 80 + 7 * 30)
        self.assertEqual(report["tokens"]["output_tokens"], 320)
        self.assertEqual(report["tokens"]["cached_tokens"], 40 * 3)
        self.assertEqual(report["tokens"]["counted_by_usage"], 40)
        for row in rows:
            self.assertEqual(row["event_tokens"], [1] * 8)
            self.assertLess(row["sent_s"] - row["intended_s"], 0.1)
        gaps = [b["intended_s"] - a["intended_s"] for a, b in zip(rows, rows[1:])]
        self.assertAlmostEqual(min(gaps), 1 / 15, places=6)
        self.assertAlmostEqual(max(gaps), 1 / 15, places=6)

    def test_the_report_follows_from_the_records(self):
        """Every figure again, from the raw times, by the definitions of docs/load.md."""
        server = self.serve(first_ms=30, gap_ms=10, chunks=6, per_chunk=3, eos=True)
        report, rows = self.load(server, "--rate", 25, "--duration", 3, "--warmup", 1, "--seed", 5,
                                 "--slo", "ttft_ms:34,itl_ms:5", "--slo", "e2e_ms:95")
        start_s, end_s = report["window"]["start_s"], report["window"]["start_s"] + report["window"]["seconds"]
        self.assertEqual((start_s, end_s), (1, 4))
        measured = [r for r in rows if start_s <= r["intended_s"] <= end_s]
        self.assertEqual(report["arrivals"], len(measured))
        self.assertEqual(report["warmup_arrivals"], sum(r["intended_s"] < start_s for r in rows))
        values = collections.defaultdict(list)
        met = [0, 0]
        for row in measured:
            self.assertTrue(row["measured"])
            times, tokens = row["event_s"], row["event_tokens"]
            self.assertEqual(sum(tokens), row["output_tokens"])
            self.assertEqual(row["output_tokens"], 19)
            ttft, e2e = (times[0] - row["intended_s"]) * 1e3, (row["end_s"] - row["intended_s"]) * 1e3
            values["ttft_ms"].append(ttft)
            values["service_ttft_ms"].append((times[0] - row["sent_s"]) * 1e3)
            values["send_lag_ms"].append((row["sent_s"] - row["intended_s"]) * 1e3)
            values["e2e_ms"].append(e2e)
            values["tpot_ms"].append((times[-1] - times[0]) * 1e3 / (row["output_tokens"] - tokens[0]))
            itl = []
            for before, after, n in zip(times, times[1:], tokens[1:]):
                values["icl_ms"].append((after - before) * 1e3)
                itl += [(after - before) * 1e3 / n] * n
            values["itl_ms"] += itl
            met[0] += ttft <= 34 and nearest_rank(itl, 99) <= 5
            met[1] += e2e <= 95
        for name, found in values.items():
            summary = report[name]
            self.assertEqual(summary["count"], len(found), name)
            self.assertAlmostEqual(summary["mean"], sum(found) / len(found), delta=1e-3 * summary["mean"])
            for percent in (50, 95, 99):
                value = summary[f"p{percent}"]
                self.assertAlmostEqual(value, nearest_rank(found, percent), delta=1e-3 * value + 1e-6, msg=name)
                self.assertLessEqual(summary[f"p{percent}_low"], value)
                self.assertGreaterEqual(summary[f"p{percent}_high"], value)
        self.assertEqual([slo["met"] for slo in report["slos"]], [len(measured), *met])
        self.assertAlmostEqual(report["slos"][1]["attainment"], met[0] / len(measured), delta=1e-3)
        self.assertAlmostEqual(report["slos"][2]["goodput_per_s"], met[1] / 3, delta=1e-2)
        output = sum(n for r in rows for t, n in zip(r["event_s"], r["event_tokens"]) if start_s <= t <= end_s) / 3
        self.assertAlmostEqual(report["throughput"]["output_tok_per_s"], output, delta=1e-3 * output)
        complete = sum(start_s <= r["end_s"] <= end_s for r in rows) / 3
        self.assertAlmostEqual(report["throughput"]["requests_per_s"], complete, delta=1e-3 * complete)

    def test_a_slow_server_does_not_slow_the_arrivals(self):
        """Open loop: with answers of a second, 30 requests a second are 30 at a time."""
        server = self.serve(first_ms=1000, chunks=1)
        report, _ = self.load(server, "--rate", 30, "--requests", 60, "--arrivals", "constant")
        self.assertTrue(report["valid"])
        arrived = [r["arrived"] for r in server.requests]
        self.assertLess(max(arrived) - min(arrived), 59 / 30 + 0.3)
        self.assertGreaterEqual(report["client"]["connections_opened"], 25)
        self.assertAlmostEqual(report["throughput"]["in_flight_mean"], 23, delta=5)  # Little's law over the window

    def test_ttft_counts_from_the_intended_arrival(self):
        """A server whose accepting stalls: service TTFT hides part of it, TTFT does not."""
        server = self.serve(first_ms=20, chunks=2)
        report, rows = self.load(server, "--arrivals", "burst", "--requests", 30)
        for row in rows:
            self.assertEqual(row["intended_s"], 0)
            self.assertAlmostEqual(row["ttft_ms"] - row["service_ttft_ms"], row["send_lag_ms"], places=3)
        self.assertEqual(report["arrivals"], 30)

    def test_connections_are_kept_and_closing_servers_are_no_errors(self):
        server = self.serve(chunks=2)
        self.load(server, "--arrivals", "closed", "--concurrency", 2, "--requests", 20)
        self.assertLessEqual(server.connections, 3 + 1)
        server = self.serve(chunks=2, mode="close")
        report, _ = self.load(server, "--arrivals", "closed", "--concurrency", 2, "--requests", 20)
        self.assertEqual((report["outcomes"]["ok"], report["loop"]), (20, "closed"))
        self.assertGreaterEqual(server.connections, 20)

    def test_closed_loop_keeps_its_concurrency_and_says_so(self):
        server = self.serve(first_ms=50, chunks=1)
        report, rows = self.load(server, "--arrivals", "closed", "--concurrency", 4, "--duration", 2)
        self.assertLessEqual(report["throughput"]["in_flight_mean"], 4.01)
        self.assertGreaterEqual(report["throughput"]["in_flight_mean"], 3)
        self.assertLessEqual(len(rows), 2 / 0.05 * 4 + 4)
        text = self.ok("load", "--url", server.url, "--arrivals", "closed", "--requests", 3).out
        self.assertIn("closed loop", text)

    def test_every_kind_of_failure_is_told_apart(self):
        for mode, kind in (("refuse", "refused"), ("busy", "refused"), ("error", "http_error"), ("reset", "cut"),
                           ("cut", "cut"), ("no_done", "cut"), ("garbage", "protocol"), ("bad_json", "protocol"),
                           ("stream_error", "stream_error"), ("not_stream", "protocol")):
            server = self.serve(mode=mode)
            report, rows = self.load(server, "--rate", 50, "--requests", 5, "--drain", 5, code=1)
            self.assertEqual((report["outcomes"][kind], report["valid"]), (5, False), (mode, report["outcomes"]))
            self.assertIn("no request got a complete answer", report["invalid_reasons"])
            self.assertEqual(report["slos"][0]["attainment"], 0)
            self.assertTrue(all(row["error"] for row in rows), mode)
            if kind == "refused":
                self.assertEqual(report["refusal_ms"]["count"], 5)
                self.assertEqual(rows[0]["retry_after_s"], 2)
                self.assertIn("too much load", report["first_errors"]["refused"])

    def test_hanging_requests_time_out_or_are_unfinished(self):
        server = self.serve(mode="hang")
        before = time.monotonic()
        report, _ = self.load(server, "--rate", 50, "--requests", 3, "--timeout", 0.5, code=1)
        self.assertEqual(report["outcomes"]["timeout"], 3)
        report, _ = self.load(server, "--rate", 50, "--requests", 3, "--drain", 0.5, code=1)
        self.assertEqual(report["outcomes"]["unfinished"], 3)
        report, _ = self.load(server, "--rate", 50, "--duration", 0.2, "--drain", 0.5, code=1)
        self.assertEqual(report["outcomes"]["unfinished"], report["arrivals"])
        self.assertLess(time.monotonic() - before, 10)

    def test_failures_are_in_the_denominator(self):
        server = self.serve()
        server.modes = ["ok", "refuse", "ok", "error"] * 5
        prompts = self.write("prompts.jsonl", '{"prompt": "a"}\n' * 20)
        report, _ = self.load(server, "--prompts", prompts, "--rate", 50)
        self.assertEqual(report["slos"][0]["attainment"], 0.5)
        self.assertEqual([report["outcomes"][kind] for kind in ("ok", "refused", "http_error")], [10, 5, 5])
        self.assertTrue(report["valid"])

    def test_nobody_there(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{unused.getsockname()[1]}"
            self.fails(1, "load", "--url", url, says=(url, "cannot connect"))
            self.fails(1, "load", "--url", url, "--model", "m", "--requests", 3, "--rate", 50,
                       says=("no request got a complete answer", "cannot connect"))

    def test_more_connections_than_allowed_make_the_run_invalid(self):
        server = self.serve(first_ms=400, chunks=1)
        report, rows = self.load(server, "--rate", 50, "--requests", 20, "--max-connections", 5, code=1)
        self.assertFalse(report["valid"])
        self.assertIn("--max-connections", report["invalid_reasons"][0])
        self.assertEqual(report["outcomes"]["not_sent"] + report["outcomes"]["ok"], 20)
        self.assertGreater(report["outcomes"]["not_sent"], 5)
        self.assertEqual(len(server.requests), report["outcomes"]["ok"])
        self.assertTrue(all(row["sent_s"] is None for row in rows if row["outcome"] == "not_sent"))

    def test_any_split_of_the_stream_reads_the_same(self):
        server = self.serve(mode="split", chunks=3, per_chunk=2)
        report, _ = self.load(server, "--rate", 20, "--requests", 3)
        self.assertEqual(report["tokens"]["output_tokens"], 18)

    def test_tokens_are_counted_as_the_server_lets_them(self):
        for script, counted, tokens in (({"usage": False}, "chunks", [1, 1, 1, 1]),
                                        ({"chunk_usage": True, "per_chunk": 3}, "usage", [3, 3, 3, 3]),
                                        ({"per_chunk": 2}, "usage", [2, 2, 2, 2]),
                                        ({"eos": True}, "usage", [1, 1, 1, 1, 1])):
            _, rows = self.load(self.serve(**script), "--rate", 50, "--requests", 2)
            self.assertEqual((rows[0]["counted_by"], rows[0]["event_tokens"]), (counted, tokens), script)

    def test_sessions_send_the_answers_back_after_the_think_time(self):
        server = self.serve(first_ms=10, chunks=2)
        report, rows = self.load(server, "--system-prompts", 2, "--system-tokens", 30, "--turns", 3,
                                 "--think-time", 0.2, "--prompt-tokens", 5, "--requests", 6, "--rate", 20)
        self.assertEqual((report["arrivals"], report["lost_turns"], len(server.requests)), (18, 0, 18))
        turns = collections.defaultdict(list)
        for row in rows:
            turns[row["item"]].append(row)
        for session in turns.values():
            self.assertEqual([row["turn"] for row in session], [0, 1, 2])
            for before, after in zip(session, session[1:]):
                self.assertAlmostEqual(after["intended_s"], before["end_s"] + 0.2, places=6)
        last = [r["body"]["messages"] for r in server.requests if len(r["body"]["messages"]) == 6]
        self.assertEqual(len(last), 6)
        for messages in last:
            self.assertEqual([m["role"] for m in messages],
                             ["system", "user", "assistant", "user", "assistant", "user"])
            self.assertEqual(messages[2]["content"], " word word")
            self.assertEqual(len(messages[0]["content"].split()), 30)
        self.assertLessEqual(len({m[0]["content"] for m in last}), 2)

    def test_a_session_ends_with_its_first_failure(self):
        report, _ = self.load(self.serve(mode="error"), "--turns", 4, "--requests", 3, "--rate", 50, code=1)
        self.assertEqual((report["arrivals"], report["lost_turns"]), (3, 9))

    def test_traces_are_replayed_in_time(self):
        server = self.serve()
        azure = os.path.join(common.TESTDATA, "load", "azure.csv")
        report, rows = self.load(server, "--trace", azure, "--endpoint", "completions", "--token-ids", 1000)
        self.assertEqual((report["arrivals"], report["workload"]["source"]), (12, "azure"))
        self.assertAlmostEqual(rows[-1]["intended_s"], 1.399087, places=6)
        sent = [(len(r["body"]["prompt"]), r["body"]["max_tokens"]) for r in server.requests]
        self.assertEqual((sum(p for p, _ in sent), sum(n for _, n in sent)), (31868, 165))
        self.assertEqual({r["path"] for r in server.requests}, {"/v1/completions"})
        server = self.serve()
        mooncake = os.path.join(common.TESTDATA, "load", "mooncake.jsonl")
        report, rows = self.load(server, "--trace", mooncake, "--time-scale", 0.3, "--seed", 3)
        self.assertEqual(report["workload"]["spread_over_s"], 3)
        self.assertEqual(sum(len(r["body"]["messages"][0]["content"].split()) for r in server.requests), 204615)
        self.assertLess(rows[-1]["intended_s"], 6 * 0.3)

    def test_the_same_seed_sends_the_same_at_the_same_times(self):
        bodies, times = [], []
        for seed in (4, 4, 5):
            server = self.serve()
            _, rows = self.load(server, "--arrivals", "gamma", "--burstiness", 0.5, "--rate", 40, "--requests", 10,
                                "--prompt-tokens", "lognormal:50:0.5", "--seed", seed)
            bodies.append(sorted(json.dumps(r["body"], sort_keys=True) for r in server.requests))
            times.append([row["intended_s"] for row in rows])
        self.assertEqual((bodies[0], times[0]), (bodies[1], times[1]))
        self.assertNotEqual((bodies[0], times[0]), (bodies[2], times[2]))

    def test_key_and_extra_body_reach_the_server(self):
        server = self.serve()
        outcome = common.surety("load", "--url", server.url + "/v1", "--requests", 1, "--rate", 50, "--model", "named",
                                "--api-key-env", "A_KEY", "--extra-body", '{"temperature": 0}', env={"A_KEY": "secret"})
        self.assertEqual(outcome.code, 0, outcome.err)
        request = server.requests[0]
        self.assertEqual(request["headers"]["authorization"], "Bearer secret")
        self.assertEqual((request["body"]["temperature"], request["body"]["model"]), (0, "named"))
        self.assertNotIn("secret", outcome.out + outcome.err)

    def test_https_is_verified_unless_told_otherwise(self):
        pem = self.path("both.pem")
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                               "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                               "-keyout", self.path("k.pem"), "-out", self.path("c.pem")],
                              capture_output=True, check=False)
        if made.returncode != 0:
            self.skipTest("no openssl command on this machine")
        with open(pem, "wb") as out:
            for part in ("k.pem", "c.pem"):
                with open(self.path(part), "rb") as f:
                    out.write(f.read())
        server = self.serve(certificate=pem, first_ms=20)
        rate = ("--rate", 20, "--requests", 5, "--warm-connections", 3)
        report, _ = self.load(server, *rate, "--ca-file", self.path("c.pem"))
        self.assertEqual(report["outcomes"]["ok"], 5)
        report, _ = self.load(server, *rate, "--insecure")
        self.assertEqual(report["outcomes"]["ok"], 5)
        self.fails(1, "load", "--url", server.url, *rate, says="TLS handshake failed")
        wrong_name = server.url.replace("localhost", "127.0.0.1")
        self.fails(1, "load", "--url", wrong_name, *rate, "--ca-file", self.path("c.pem"), says="TLS handshake failed")
        self.fails(1, "load", "--url", server.url, "--ca-file", self.path("none.pem"), says="none.pem")

    def test_the_page_is_well_formed_and_asks_for_nothing(self):
        server = self.serve(first_ms=5, gap_ms=5)
        page = self.path("report.html")
        self.load(server, "--rate", 40, "--requests", 20, "--report", page, "--label", "<&\"é\x01",
                  "--slo", "ttft_ms:50")
        with open(page, encoding="utf-8") as f:
            text = f.read()
        root = xml.etree.ElementTree.fromstring(text.split("\n", 1)[1])
        space = "{http://www.w3.org/2000/svg}"
        self.assertEqual(len(root.findall(f".//{space}svg")), 5)
        self.assertGreaterEqual(len(root.findall(f".//{space}polyline")), 8)
        self.assertEqual(len(root.findall(f".//{space}circle")), 20)
        for element in root.iter():
            self.assertNotIn(element.tag.split("}")[1], ("script", "link", "img", "iframe"))
            for name, value in element.attrib.items():
                self.assertFalse(name in ("src", "href") or "url(" in value, (name, value))
        self.assertIn("<&\"é\ufffd", "".join(root.itertext()))

    def test_an_interrupt_reports_what_was_measured(self):
        server = self.serve(first_ms=10, gap_ms=300, chunks=4)
        page, records = self.path("report.html"), self.path("records.jsonl")
        process = start("load", "--url", server.url, "--rate", 20, "--duration", 60, "--json", "--report", page,
                        "--records", records)
        deadline = time.monotonic() + 20
        while len(server.requests) < 40 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
        self.assertEqual(process.returncode, 130, err)
        report = json.loads(out)
        self.assertTrue(report["interrupted"])
        self.assertGreater(report["outcomes"]["ok"], 5)
        self.assertGreater(report["outcomes"]["interrupted"], 5)
        self.assertLess(report["window"]["seconds"], 20)
        with open(records, encoding="utf-8") as f:
            self.assertEqual(len(f.readlines()), report["arrivals"])
        with open(page, encoding="utf-8") as f:
            self.assertIn("interrupted", f.read())

    def test_capacity_is_found(self):
        """Answers take 50 ms: from about 60 a second on, a fourth connection would be needed, which is invalid."""
        server = self.serve(first_ms=10, chunks=1)
        outcome = common.surety("load", "--url", server.url, "--find-capacity", "--slo", "ttft_ms:400", "--rate", 64,
                                "--arrivals", "constant", "--duration", 0.5, "--max-connections", 3, "--json",
                                "--extra-body", '{"script": {"first_ms": 50}}')
        self.assertEqual(outcome.code, 0, outcome.err)
        report = outcome.json()
        self.documented(report)
        self.assertTrue(20 < report["capacity_per_s"] < 64, report)
        self.assertEqual(report["probes"][0]["valid"], False)
        self.assertGreater(report["failed_per_s"], report["capacity_per_s"])

    def test_mistakes_are_usage_errors(self):
        for flags, says in ((["--arrivals", "x"], "--arrivals"), (["--url", "nowhere"], "--url"),
                            (["--trace", self.write("t.jsonl", '{"prompt": 1}\n')], "t.jsonl:1"),
                            (["--slo", "a:1"], "--slo"), (["--extra-body", "{"], "--extra-body")):
            self.fails(2, "load", "--model", "m", *flags, says=says)
        self.fails(1, "load", "--model", "m", "--trace", self.path("none.jsonl"), says="none.jsonl")


if __name__ == "__main__":
    if not os.path.exists(common.BINARY):
        sys.exit(f"{common.BINARY} is not built")
    unittest.main(verbosity=2)

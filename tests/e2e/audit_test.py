#!/usr/bin/env python3
"""surety audit on logs that this file writes by docs/governance.md alone, and surety slo on a server made here."""

import hashlib
import http.server
import json
import os
import shutil
import signal
import threading
import time
import unittest

import common
from common import EndToEnd, ROOT

EXAMPLE = os.path.join(ROOT, "policies", "retail-demo")


def chain(bodies, kind="decision"):
    """The bytes of a log, and the hash of each row."""
    lines, hashes, prev = [], [], "0" * 64
    for seq, body in enumerate(bodies):
        head = json.dumps({"seq": seq, "time": 1796032800123456789 + seq, "prev": prev, "kind": kind, "body": body},
                          separators=(",", ":"), ensure_ascii=False)
        prev = hashlib.sha256(head.encode()).hexdigest()
        hashes.append(prev)
        lines.append(head[:-1] + f',"hash":"{prev}"}}\n')
    return "".join(lines).encode(), hashes


NOTE = 'é " } \\ \u001b[31m \u009b31m \u202e'
BODIES = [{"id": f"dec_{i}", "route": "faq", "outcome": "held", "note": NOTE} for i in range(30)]


class AuditTest(EndToEnd):
    def setUp(self):
        super().setUp()
        self.bytes, self.hashes = chain(BODIES)
        self.log = self.write("audit.log", self.bytes)

    def test_a_log_made_by_the_document_verifies(self):
        report = self.ok("audit", "verify", self.log, "--json").json()
        self.documented(report)
        self.assertEqual((report["verified"], report["rows"], report["torn_tail"]), (True, 30, False))
        self.assertEqual(report["last_hash"], self.hashes[-1])
        self.assertIn(self.hashes[-1], self.ok("audit", "verify", self.log).out)
        report = self.ok("audit", "verify", self.log, "--json", "--expect", self.hashes[7].upper()).json()
        self.assertEqual(report["expected_in_row"], 7)
        self.documented(report)

    def segments(self, folder, cuts):
        """A log in several files, by the document alone; the hash of each row."""
        bodies, kinds = list(BODIES), ["decision"] * len(BODIES)
        for cut in cuts:
            bodies.insert(cut, {"id": f"segment_{cut}", "before": "-", "before_bytes": 0})
            kinds.insert(cut, "segment")
        lines, hashes, prev = [], [], "0" * 64
        for seq, (kind, body) in enumerate(zip(kinds, bodies)):
            head = json.dumps({"seq": seq, "time": 1796032800123456789, "prev": prev, "kind": kind, "body": body},
                              separators=(",", ":"), ensure_ascii=False)
            prev = hashlib.sha256(head.encode()).hexdigest()
            hashes.append(prev)
            lines.append((head[:-1] + f',"hash":"{prev}"}}\n').encode())
        firsts = [0, *cuts]
        os.makedirs(self.path(folder), exist_ok=True)
        for first, end in zip(firsts, [*cuts, len(lines)]):
            name = "audit.log" if end == len(lines) else f"audit.log.{first:012}"
            self.write(f"{folder}/{name}", b"".join(lines[first:end]))
        return hashes

    def test_a_log_in_segments_is_checked_as_one(self):
        hashes = self.segments("state", [10, 21])
        folder = self.path("state")
        for path in (folder, f"{folder}/audit.log"):
            report = self.ok("audit", "verify", path, "--json").json()
            self.documented(report)
            self.assertEqual((report["rows"], report["segments"], report["last_hash"], report["first_seq"]),
                             (32, 3, hashes[-1], 0))
        self.assertEqual(len(self.ok("audit", "show", folder, "--last", "100").out.splitlines()), 32)
        self.ok("audit", "verify", folder, "--expect", hashes[3], "--expect-first", "0" * 64)
        os.makedirs(self.path("archive"))
        oldest, middle = f"{folder}/audit.log.000000000000", f"{folder}/audit.log.000000000010"
        os.rename(middle, self.path("away"))
        self.fails(1, "audit", "verify", folder, says="rows 10 to 20 are missing")
        os.rename(self.path("away"), middle)
        os.rename(oldest, self.path("archive/audit.log.000000000000"))
        outcome = self.ok("audit", "verify", folder)
        self.assertIn("rows 0 to 9 are not here", outcome.err)
        self.assertIn("begins with row 10", outcome.out)
        archived = self.ok("audit", "verify", self.path("archive"), "--json").json()
        self.assertTrue(archived["newest_missing"])
        self.assertEqual(archived["last_hash"], hashes[9])
        outcome = self.ok("audit", "verify", folder, "--expect-first", archived["last_hash"])
        self.assertEqual(outcome.err, "")
        self.fails(1, "audit", "verify", folder, "--expect-first", "0" * 64, says=("row here, 10", "missing"))
        self.fails(2, "audit", "verify", folder, "--expect-first", "12", says="64")
        os.makedirs(self.path("empty"))
        self.fails(1, "audit", "verify", self.path("empty"), says="neither audit.log nor a segment")

    def test_what_was_changed_is_found_and_named(self):
        self.write("audit.log", self.bytes.replace(b'"dec_5"', b'"dec_6"'))
        self.fails(1, "audit", "verify", self.log, says=("row 5 ", "changed"))
        lines = self.bytes.splitlines(keepends=True)
        self.write("audit.log", b"".join(lines[:9] + lines[10:]))
        report = self.fails(1, "audit", "verify", self.log, "--json", says="rows 9 to 9 are missing").json()
        self.assertFalse(report["verified"])
        self.documented(report)

    def test_a_cut_end_is_found_with_an_anchor_and_a_torn_one_is_told(self):
        lines = self.bytes.splitlines(keepends=True)
        self.write("audit.log", b"".join(lines[:-1]))
        self.ok("audit", "verify", self.log)
        self.fails(1, "audit", "verify", self.log, "--expect", self.hashes[-1], says=("cut off", self.hashes[-1]))
        self.write("audit.log", self.bytes[:-10])
        outcome = self.ok("audit", "verify", self.log)
        self.assertIn("incomplete", outcome.err)
        self.fails(2, "audit", "verify", self.log, "--expect", "abc", says="64")
        self.fails(1, "audit", "verify", self.path("none.log"), says="none.log")
        self.fails(2, "audit", says="verify")

    def test_rows_are_shown(self):
        out = self.ok("audit", "show", self.log).out
        self.assertEqual(len(out.splitlines()), 20)
        self.assertIn("dec_29", out)
        self.assertIn("2026-11-30T", out)
        self.assertNotIn("\x1b", out)
        report = self.ok("audit", "show", self.log, "--last", "2", "--json").json()
        self.documented({key: None for key in report["rows"][0]})
        self.assertEqual([row["body"] for row in report["rows"]], BODIES[-2:])
        report = self.ok("audit", "show", self.log, "--id", "dec_3", "--json").json()
        self.assertEqual([row["seq"] for row in report["rows"]], [3])
        out = self.ok("audit", "show", self.log, "--id", "dec_3").out
        self.assertIn('"route": "faq"', out)
        for steering in ("\x1b", "\u009b", "\u202e"):
            self.assertNotIn(steering, out)
        self.assertIn("<U+009B>", out)
        self.assertIn("<U+202E>", out)
        self.fails(1, "audit", "show", self.log, "--id", "dec_30", says="dec_30")
        self.fails(2, "audit", "show", self.log, "--last", "0", says="--last")
        self.write("audit.log", self.bytes.replace(b'"dec_5"', b'"dec_6"'))
        outcome = self.fails(1, "audit", "show", self.log, says="row 5 ")
        self.assertEqual(len(outcome.out.splitlines()), 5)

    def test_ctrl_c_ends_the_check_of_a_long_log(self):
        data, _ = chain([{"id": str(i), "x": "y" * 1000000} for i in range(300)])
        log = self.write("long.log", data)
        process = common.start("audit", "verify", log)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertIn(process.returncode, (130, 0), err)
        self.assertIn("300 rows", self.ok("audit", "verify", log).out)


REPORT = {
    "policy": {"id": "retail", "version": "7", "digest": "d"}, "currency": "EUR", "uptime_seconds": 3700.0,
    "objectives": [{"route": "faq", "objective": "ttfu_p95", "allowed_bad_share": 0.05, "limit_seconds": 1.5,
                    "seconds": 0.75, "burn": {"5m": {"rate": 20.5}, "1h": {"rate": 15.0}, "6h": {"rate": 2.0}},
                    "budget_left": -0.5, "alert": "fast"}],
    "routes": [{"route": "faq", "windows": {"1h": {"decisions": 12, "share": 1.0, "acceptance": None,
                                                   "cost": {"per_accepted_task": 0.0375}}}}],
    "all": {}, "fallbacks": [{"from": "faq", "to": "high\x1b[31m", "cause": "timeout", "count": 3}],
}


class HistoryTest(EndToEnd):
    """surety check --trace LOG: yesterday's decisions under tomorrow's policy."""

    def setUp(self):
        super().setUp()
        self.old, self.new = self.path("old"), self.path("new")
        for folder in (self.old, self.new):
            shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("state", "*.db*"))
        with open(os.path.join(self.new, "policy.yaml"), encoding="utf-8") as f:
            text = f.read()
        text = text.replace('version: "2026.11.1"', 'version: "2026.12.1"').replace("amount: {above: 10000}",
                                                                                    "amount: {above: 500}")
        self.write("new/policy.yaml", text)
        common_signals = {"rights": "false", "complaint": "false", "amount_spelt": "none", "long_question": "40",
                          "complexity": "low"}
        rows = [("faq", {"intent": "fees", "amount": "none", "risk": "low"}, "miss", "p1"),
                ("faq", {"intent": "fees", "amount": "900", "risk": "low"}, "hit", "p1"),
                ("otherwise", {"intent": "none", "amount": "none", "risk": "low"}, "bypass:off", "")]
        bodies = [{"id": f"dec_{i}", "time_ns": (1796032800 + 86400 * i) * 10**9, "route": route,
                   "policy_id": "retail-demo", "policy_version": "2026.11.1", "signals": common_signals | signals,
                   "cache": cache, "partition": partition} for i, (route, signals, cache, partition) in enumerate(rows)]
        self.log = self.write("audit.log", chain(bodies)[0])
        self.args = ("check", os.path.join(self.new, "policy.yaml"), "--diff", os.path.join(self.old, "policy.yaml"),
                     "--trace")

    def test_decisions_of_the_log_are_held_against_the_new_policy(self):
        report = self.ok(*self.args, self.log, "--json").json()["trace"]
        self.assertEqual((report["decisions"], report["moved"], report["undetermined"]), (3, 1, 0))
        self.assertEqual(report["moves"], {"faq > high": 1})
        self.assertEqual(report["lines"][0]["id"], "dec_1")
        self.assertEqual(report["partitions"], [{"route": "faq", "partitions": 1, "decisions": 2, "die": True,
                                                 "digests": ["p1"]}])
        out = self.ok(*self.args, self.log, "--brief").out
        self.assertIn("1 of 3 decisions take another route", out)
        self.assertIn("moves dec_1: faq > high", out)
        self.assertIn("all die", out)
        since = self.ok(*self.args, self.log, "--json", "--since", "2026-12-01T12:00:00Z").json()["trace"]
        self.assertEqual(since["decisions"], 1)

    def test_what_is_wrong_is_said_with_its_exit_code(self):
        self.fails(2, *self.args, self.log, "--since", "yesterday", says="--since")
        self.fails(2, *self.args[:-1], "--vault", self.path("."), says="--trace LOG")
        self.fails(1, *self.args, self.log, "--vault", self.path("."), says="vault.db")
        requests = self.write("requests.jsonl", '{"text": "hello"}\n')
        self.ok(*self.args, requests)
        self.fails(1, *self.args, requests, "--since", "2026-12-01", says="requests")
        self.fails(1, *self.args, self.path("none.log"), says="none.log")
        with open(self.log, "rb") as f:
            self.write("audit.log", f.read().replace(b'"900"', b'"901"'))
        self.fails(1, *self.args, self.log, says="row 1 ")


class AdminServer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # noqa: N802
        body = json.dumps(REPORT).encode()
        status = 200 if self.headers.get("Authorization") == "Bearer k1" else 401
        self.send_response(status if self.path == "/admin/slo" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class SloTest(EndToEnd):
    def setUp(self):
        super().setUp()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), AdminServer)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_port}"

    def test_the_report_is_fetched_and_shown(self):
        self.assertEqual(self.ok("slo", "--url", self.url, "--key", "k1", "--json").json(), REPORT)
        out = self.ok("slo", "--url", self.url + "/", "--key-env", "K", env={"K": "k1"}).out
        for text in ("ttfu_p95", "1.50 s", "750 ms", "20.50", "-50.0 %", "fast", "EUR/task", "0.0375",
                     "faq -> high?[31m (timeout): 3"):
            self.assertIn(text, out)
        self.assertNotIn("\x1b", out)

    def test_what_goes_wrong_is_said(self):
        self.fails(1, "slo", "--url", self.url, says="admin")
        self.fails(1, "slo", "--url", self.url + "/other", "--key", "k1", says="404")
        self.fails(1, "slo", "--url", "http://127.0.0.1:1", says="127.0.0.1")
        self.fails(2, "slo", "--url", "ftp://x", says="ftp")
        self.fails(2, "slo", says="--url")
        self.fails(2, "slo", "--url", self.url, "--window", "2h", says="--window")
        self.fails(2, "slo", "--url", self.url, "--key-env", "NOT_SET_HERE", says="NOT_SET_HERE")


if __name__ == "__main__":
    unittest.main(verbosity=2)

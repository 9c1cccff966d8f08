#!/usr/bin/env python3
"""surety audit on logs that this file writes by docs/governance.md alone, and surety slo on a server made here."""

import hashlib
import http.server
import json
import signal
import threading
import time
import unittest

import common
from common import EndToEnd


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


BODIES = [{"id": f"dec_{i}", "route": "faq", "outcome": "held", "note": 'é " } \\ \u001b[31m'} for i in range(30)]


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
        self.assertNotIn("\x1b", out)
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

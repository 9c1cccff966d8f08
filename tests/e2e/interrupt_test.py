#!/usr/bin/env python3
"""Ctrl-C and SIGTERM at any moment: a clean end with exit code 130."""

import http.server
import json
import os
import signal
import subprocess
import threading
import time

import common
from common import MODEL, EndToEnd


class InterruptTest(EndToEnd):
    def end(self, process, timeout=60):
        out, err = process.communicate(timeout=timeout)
        return process.returncode, out.decode("utf-8"), err.decode()

    def test_ctrl_c_during_an_answer_ends_it_with_timing(self):
        process = common.start("run", "-m", MODEL, "-p", "Count to one thousand.", "-n", "3000", "--ignore-eos")
        process.stdout.read1(1)
        process.send_signal(signal.SIGINT)
        code, _, err = self.end(process)
        self.assertEqual(code, 130, err)
        self.assertIn("tok/s", err)
        self.assertIn("cancelled", err)

    def test_sigterm_ends_it_too(self):
        process = common.start("run", "-m", MODEL, "-p", "Count to one thousand.", "-n", "3000", "--ignore-eos")
        process.stdout.read1(1)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.end(process)[0], 130)

    def test_ctrl_c_at_many_moments_never_leaves_a_crash(self):
        for delay in (0.03, 0.1, 0.2, 0.4):
            process = common.start("run", "-m", MODEL, "-p", "word " * 500, "-n", "200", "--ignore-eos")
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            code, _, err = self.end(process)
            self.assertIn(code, (130, -signal.SIGINT), err)  # the second: before the handler was in place

    def test_ctrl_c_during_bench_and_perplexity(self):
        text = self.write("text.txt", "The quick brown fox jumps over the lazy dog. " * 2000)
        for args in (("bench", "-m", MODEL, "--repetitions", "100", "--quick-roofs"),
                     ("perplexity", "-m", MODEL, "-f", text)):
            process = common.start(*args)
            time.sleep(2)
            process.send_signal(signal.SIGINT)
            code, _, err = self.end(process)
            self.assertEqual(code, 130, err)
            self.assertIn("interrupted", err)

    def test_ctrl_c_in_a_review_gives_the_ticket_back(self):
        seen = []

        class Desk(http.server.BaseHTTPRequestHandler):
            def answer(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                seen.append(self.path)
                ticket = {"object": "review.ticket", "id": "rev_1", "version": 1, "state": "open", "question": "May I?",
                          "text": "No."}
                body = json.dumps({"object": "list", "data": [ticket]} if self.command == "GET" else ticket).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Desk)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        for how, code in ((lambda process, keys: process.send_signal(signal.SIGINT), 130),
                          (lambda process, keys: os.write(keys, b"q\n"), 0)):
            keys, terminal = os.openpty()
            process = subprocess.Popen([common.BINARY, "review", "--url", f"http://127.0.0.1:{server.server_port}"],
                                       stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            os.close(terminal)
            text = b""
            while b"[q]uit" not in text:
                piece = process.stdout.read1(4096)
                self.assertTrue(piece, text)
                text += piece
            how(process, keys)
            self.assertEqual(self.end(process)[0], code)
            os.close(keys)
            self.assertTrue(seen[-1].endswith("/rev_1/release"), seen)
            seen.clear()


if __name__ == "__main__":
    common.main()

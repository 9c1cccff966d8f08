#!/usr/bin/env python3
"""Ctrl-C and SIGTERM at any moment: a clean end with exit code 130."""

import signal
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


if __name__ == "__main__":
    common.main()

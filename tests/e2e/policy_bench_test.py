#!/usr/bin/env python3
"""surety bench policy on the example policy: short runs, whose figures are only checked for what they must be."""

import glob
import os
import resource
import shutil
import signal
import time

import common
from common import EndToEnd, ROOT, start

EXAMPLE = os.path.join(ROOT, "policies", "retail-demo")


class PolicyBenchTest(EndToEnd):
    def setUp(self):
        super().setUp()
        self.policy = self.path("retail-demo")
        shutil.copytree(EXAMPLE, self.policy, ignore=shutil.ignore_patterns("state", "*.db*"))
        self.file = os.path.join(self.policy, "policy.yaml")
        self.questions = os.path.join(self.policy, "questions.jsonl")
        self.scratch = self.path("scratch")
        os.mkdir(self.scratch)
        self.ok("documents", "add", "--index", os.path.join(self.policy, "handbook.db"),
                os.path.join(self.policy, "documents"))

    def bench(self, *args):
        return ("bench", "policy", self.file, "--questions", self.questions, "--state", self.scratch, "--rate", 100,
                "--seconds", 2, "--warmup", 0.5, *args)

    def test_report_has_the_documented_fields(self):
        report = self.ok(*self.bench("--json")).json()
        self.documented(report)
        self.assertEqual([p["state"] for p in report["passes"]], ["disk", "memory"])
        for run in report["passes"]:
            self.assertGreater(run["requests"], 100)
            self.assertEqual(run["unfinished"], 0)
            self.assertEqual(sum(r["requests"] for r in run["routes"]), run["all"]["requests"])
            self.assertGreater(run["syncs"], 0)
            figures = run["all"]["latency_ms"]
            self.assertTrue(0 < figures["p50"] <= figures["p95"] <= figures["p99"] <= figures["max"], figures)
            stages = run["all"]["stages_ms"]
            mean = sum(stage["mean"] for stage in stages.values())
            self.assertAlmostEqual(mean, figures["mean"], delta=0.01 * figures["mean"] + 0.01)
            routes = {(r["route"], r["cache"]): r for r in run["routes"]}
            # Every way of the policy was gone, and the instant model's answers pass its verifiers.
            self.assertEqual({route for route, _ in routes}, {"faq", "policy_answer", "high", "otherwise"})
            outcomes = lambda key: {o["outcome"] for o in routes[key]["outcomes"]}
            self.assertEqual(outcomes(("faq", "bypass:off")), {"template"})
            self.assertEqual(outcomes(("policy_answer", "miss")), {"streamed"})
            self.assertEqual(outcomes(("policy_answer", "hit")), {"held"})
            self.assertEqual(outcomes(("high", "bypass:off")), {"review"})
            self.assertGreater(routes[("policy_answer", "miss")]["stages_ms"]["retrieve"]["mean"], 0)
        # Nothing is left, and the policy's own state was never made.
        self.assertEqual(os.listdir(self.scratch), [])
        self.assertFalse(os.path.exists(os.path.join(self.policy, "state")))

    def test_table_and_phrases_without_questions(self):
        out = self.ok("bench", "policy", self.file, "--state", self.scratch, "--passes", "disk", "--rate", 50,
                      "--seconds", 1, "--warmup", 0, "--arrivals", "constant").out
        for word in ("policy_answer", "p99", "audit", "rows each", "answers at once"):
            self.assertIn(word, out)

    def test_what_it_refuses(self):
        self.fails(2, *self.bench("--rate", 0), says="--rate")
        self.fails(2, *self.bench("--passes", "tape"), says="--passes")
        with open(self.questions, "a", encoding="utf-8") as f:
            f.write('{"question": 1}\n')
        self.fails(1, *self.bench(), says="questions.jsonl")
        with open(self.file, "a", encoding="utf-8") as f:
            f.write("\ntools:\n  ledger: {kind: read, command: [/bin/true]}\n")
        self.fails(1, *self.bench(), says="tool 'ledger' would be called for real")

    def test_a_log_that_takes_no_more_rows_is_no_figure(self):
        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
        process = start("bench", "policy", self.file, "--state", self.scratch, "--passes", "disk", "--rate", "500",
                        "--seconds", "2", "--warmup", "0", "--json", preexec_fn=small_files)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (1, b""), err)
        self.assertIn(b"took no more rows after", err)

    def test_ctrl_c_ends_with_what_was_measured(self):
        process = start("bench", "policy", self.file, "--state", self.scratch, "--passes", "disk", "--rate", "50",
                        "--seconds", "60", "--warmup", "0", "--json")
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn(b'"interrupted": true', out)
        self.assertEqual(glob.glob(os.path.join(self.scratch, "*")), [])


if __name__ == "__main__":
    common.main()

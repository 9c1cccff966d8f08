#!/usr/bin/env python3
"""surety train-router: a classifier of three intents: what is reported, the same file twice, Ctrl-C, mistakes."""

import json
import os
import signal
import time

import common
from common import EndToEnd, start, surety

ENCODER = "all-MiniLM-L6-v2"
QUESTIONS = {
    "lost_card": ["I lost my {}card", "My {}card is gone", "Someone stole my {}card", "I can not find my {}card"],
    "balance": ["How much money is in my {}account?", "What is the balance of my {}account?",
                "Show what I have on my {}account", "Is there enough on my {}account?"],
    "exchange": ["What is the {}exchange rate for euros?", "How are {}rates between currencies set?",
                 "I want the {}rate for dollars", "Which {}rate do you use for foreign money?"]}
WORDS = ("", "business ", "joint ", "new ", "old ", "daily ")


def questions():
    lines = ["category,text"]
    for label, forms in QUESTIONS.items():
        lines += [f'{label},"{form.format(word)}, ""please""\nthank you"' for form in forms for word in WORDS]
    return "\n".join(lines) + "\n"


class TrainRouterTest(EndToEnd):
    def setUp(self):
        super().setUp()
        if surety("models", "path", ENCODER).code != 0:
            self.skipTest(f"{ENCODER} is not on this machine (surety models pull {ENCODER})")
        self.data = self.write("questions.csv", questions())

    def test_a_classifier_is_measured_written_and_the_same_again(self):
        report = self.ok("train-router", "-d", self.data, "-o", self.path("a.json"), "--json", "--dump-vectors",
                         self.path("dump")).json()
        report["labels"] = len(report["labels"])
        self.documented(report)
        self.assertEqual((report["rows"], report["labels"], report["dimensions"]), (72, 3, 384))
        self.assertTrue(report["converged"])
        evaluation = report["evaluation"]
        self.assertGreater(evaluation["accuracy"]["value"], 0.9)
        self.assertEqual(sum(map(sum, evaluation["confusion"])), 72)
        self.assertEqual([point["accuracy"]["of"] for point in evaluation["abstention"][:1]], [72])
        self.assertTrue(os.path.getsize(self.path("dump/vectors.npy")) > 72 * 384 * 4)
        text = self.ok("train-router", "-d", self.data, "-o", self.path("b.json"), "--threads", 1).out
        self.assertIn("Accuracy", text)
        self.assertIn("min_confidence: ", text)
        with open(self.path("a.json"), encoding="utf-8") as a, open(self.path("b.json"), encoding="utf-8") as b:
            first, second = json.load(a), json.load(b)
        self.assertEqual(first["format"], "surety-intent-classifier")
        self.assertEqual([entry["label"] for entry in first["labels"]], sorted(QUESTIONS))
        self.assertEqual(first, second)

    def test_ctrl_c_writes_nothing(self):
        process = start("train-router", "-d", self.data, "-o", self.path("a.json"), "--folds", 12)
        time.sleep(0.4)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        if process.returncode != 0:   # it may have been done already
            self.assertEqual(process.returncode, 130, err)
            self.assertFalse(os.path.exists(self.path("a.json")))

    def test_mistakes_are_named(self):
        base = ("train-router", "-o", self.path("x.json"))
        self.fails(2, *base, says="-d")
        self.fails(2, "train-router", "-d", self.data, says="-o")
        self.fails(2, *base, "-d", self.data, "--folds", 1, says="--folds")
        self.fails(2, *base, "-d", self.data, "--target-accuracy", 1.5, says="--target-accuracy")
        self.fails(1, *base, "-d", self.path("none.csv"), says="none.csv")
        self.fails(1, *base, "-d", self.data, "--label-column", "intent", says=("intent", "--label-column", "category"))
        few = self.write("few.csv", questions() + "rare,only once\n")
        self.fails(1, *base, "-d", few, says=('"rare" has 1 different texts', "5 folds"))
        broken = self.write("broken.csv", 'category,text\na,"b\n')
        self.fails(1, *base, "-d", broken, says="broken.csv:2: the quote that opens here is never closed")
        self.fails(1, *base, "-d", self.data, "--embedding-model", common.MODEL, says="not an encoder")


if __name__ == "__main__":
    common.main()

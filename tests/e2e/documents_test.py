#!/usr/bin/env python3
"""surety documents: add, list, remove and search as a user does; what is refused, and that nothing changes then."""

import os
import signal
import time

import common
from common import EndToEnd, start, surety

ENCODER = "all-MiniLM-L6-v2"


def document(text="The refund fee is 25 dollars.", **front):
    fields = {"id": "fees", "version": "1", "permissions": "[agents]", **front}
    return "---\n" + "".join(f"{key}: {value}\n" for key, value in fields.items()) + "---\n" + text + "\n"


class DocumentsTest(EndToEnd):
    def setUp(self):
        super().setUp()
        self.index = self.path("index.db")
        os.mkdir(self.path("policies"))
        os.mkdir(self.path("policies/.hidden"))

    def add(self, *names, **kwargs):
        report = self.ok("documents", "add", "--index", self.index, *map(self.path, names), "--json", **kwargs).json()
        self.documented(report)
        return report

    def found(self, *args):
        report = self.ok("documents", "search", "--index", self.index, "refund fee", *args, "--json").json()
        self.documented(report)
        return [passage["citation"] for passage in report["found"]]

    def snapshot(self):
        return self.ok("documents", "list", "--index", self.index, "--json").json()["snapshot"]

    def test_a_superseded_version_rights_and_removal(self):
        self.write("policies/old.md", document(effective_to="2026-11-15"))
        self.write("policies/new.TXT", document("The refund fee is 30.", version=2, effective_from="2026-11-15"))
        self.write("policies/.hidden/x.md", "no front matter")
        self.write("policies/picture.png", b"\x89PNG")
        report = self.add("policies")
        self.assertEqual((report["documents"], report["passages"], report["dimensions"]), (2, 2, 0))
        at = ("--permission", "agents", "--as-of")
        self.assertEqual(self.found(*at, "2026-11-14T23:59:59.999999999Z"), ["[fees:1@1]"])
        self.assertEqual(self.found(*at, "2026-11-15"), ["[fees:1@2]"])
        self.assertEqual(self.found("--permission", "agent", "--as-of", "2026-11-15"), [])
        self.assertEqual(self.found("--as-of", "2026-11-15"), [])
        listed = self.ok("documents", "list", "--index", self.index, "--json").json()
        self.documented(listed)
        self.assertEqual([d["version"] for d in listed["documents"]], ["1", "2"])
        self.assertIsNone(listed["documents"][0]["effective_from"])
        self.assertEqual(listed["documents"][0]["effective_to"], "2026-11-15")
        self.fails(1, "documents", "remove", "--index", self.index, "feees", says="did you mean fees?")
        self.fails(1, "documents", "remove", "--index", self.index, "fees", "--version", "3", says="it has 1, 2")
        removed = self.ok("documents", "remove", "--index", self.index, "fees", "--version", "2", "--json").json()
        self.documented(removed)
        self.assertEqual(removed["removed_versions"], 1)
        self.assertEqual(self.found(*at, "2026-11-15"), [])
        self.assertEqual(os.stat(self.index).st_mode & 0o777, 0o600)
        out = self.ok("documents", "search", "--index", self.index, "refund", "--permission", "agents", "--as-of",
                      "2020-01-01").out
        self.assertIn("[fees:1@1]", out)
        self.assertIn("25 dollars", out)

    def test_all_or_nothing(self):
        self.write("policies/a.md", document())
        before = self.add("policies")["snapshot"]
        for name, text, says in (
                ("b.md", document(id="other", permision="[x]"), ("b.md, line 5", "did you mean permissions?")),
                ("b.md", "no front matter", "b.md, line 1"),
                ("b.md", document(version=9), ("version '9'", "version '1'", "overlap")),
                ("b.md", document("Text.", id="a b"), "such as 'a-b'"),
                ("b.md", document("Twice."), ("a.md", "b.md", "version '1'"))):
            self.write("policies/a.md", document("Changed."))
            self.write("policies/" + name, text)
            self.fails(1, "documents", "add", "--index", self.index, self.path("policies"), says=says)
            self.assertEqual(self.snapshot(), before)
        self.fails(1, "documents", "add", "--index", self.index, self.path("none"), says="no such file")
        self.fails(2, "documents", "add", self.path("policies"), says="--index")
        self.fails(2, "documents", "add", "--index", self.index)
        self.fails(2, "documents")
        self.fails(2, "documents", "search", "--index", self.index, "x", "--as-of", "tomorrow", says="--as-of")
        self.fails(2, "documents", "search", "--index", self.index, "x", "--by", "vector", says="--embedding-model")
        self.fails(1, "documents", "list", "--index", self.path("none.db"), says="no such file".capitalize())
        self.fails(1, "documents", "remove", "--index", self.path("none.db"), "x")
        self.assertFalse(os.path.exists(self.path("none.db")))
        self.fails(1, "documents", "list", "--index", self.write("text.db", "x" * 4000), says="not a database")

    def test_an_interrupt_changes_nothing(self):
        self.write("first.md", document(id="first"))
        before = self.add("first.md")["snapshot"]
        for i in range(4000):
            self.write(f"policies/{i}.md", document("Words and words of a text. " * 300, id=f"d{i}"))
        process = start("documents", "add", "--index", self.index, self.path("policies"))
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn(b"nothing was changed", err)
        self.assertEqual(self.snapshot(), before)
        # Killed in the middle, the index is as before, too.
        process = start("documents", "add", "--index", self.index, self.path("policies"))
        time.sleep(1.5)
        process.kill()
        process.communicate(timeout=60)
        self.assertEqual(self.snapshot(), before)

    def test_vectors(self):
        if surety("models", "path", ENCODER).code != 0:
            self.skipTest(f"{ENCODER} is not on this machine")
        self.write("policies/a.md", document("A cat sat on the mat.", id="cat"))
        self.write("policies/b.md", document("Interest rates rose at the central bank.", id="bank"))
        self.ok("documents", "add", "--index", self.index, "--embedding-model", ENCODER, self.path("policies"))
        for query, first in (("kitten", "cat"), ("monetary policy", "bank")):
            report = self.ok("documents", "search", "--index", self.index, "--permission", "agents",
                             "--embedding-model", ENCODER, "--by", "vector", query, "--json").json()
            self.documented(report)
            self.assertEqual([p["document"] for p in report["found"]][0], first)
            self.assertEqual(len(report["found"]), 2)
        self.fails(1, "documents", "add", "--index", self.index, self.path("policies"), says=ENCODER)
        self.ok("documents", "add", "--index", self.path("plain.db"), self.path("policies"))
        self.fails(1, "documents", "search", "--index", self.path("plain.db"), "--embedding-model", ENCODER, "x",
                   says="no vectors")


if __name__ == "__main__":
    common.main()

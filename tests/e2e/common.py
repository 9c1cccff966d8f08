"""What the end-to-end tests share: the real binary, run as a user would, on the small catalogue model."""

import functools
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("SURETY_BINARY", os.path.join(ROOT, "build", "bin", "surety"))
TESTDATA = os.path.join(ROOT, "testdata")
MODEL = "smollm2-135m-instruct"
SKIPPED = 77
os.environ.pop("SURETY_HEADS", None)  # heads of whoever runs the tests would draft in them
TIMEOUT_S = 240


class Outcome:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def json(self):
        return json.loads(self.out)


def surety(*args, stdin=None, env=None, timeout=TIMEOUT_S):
    """Runs the program; stdin is text, or None for an empty one."""
    done = subprocess.run([BINARY, *map(str, args)], input=(stdin or "").encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={**os.environ, **(env or {})}, timeout=timeout, check=False)
    return Outcome(done.returncode, done.stdout.decode("utf-8", "surrogateescape"),
                   done.stderr.decode("utf-8", "replace"))


def start(*args, **kwargs):
    return subprocess.Popen([BINARY, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **kwargs)


def peak_memory_of(*args):
    """Bytes of the largest resident set that the program takes for the command."""
    process = subprocess.Popen([BINARY, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, status
    return usage.ru_maxrss * 1024


def model_path():
    found = surety("models", "path", MODEL)
    return found.out.strip() if found.code == 0 else None


def documented_fields(page="cli.md"):
    """What stands in a document as `a_name`."""
    with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as f:
        return set(re.findall(r"`([a-z0-9_]+)`", f.read()))


def measured(test):
    """Decorates a test, or all tests of a class, that claim a measured time: other programs on the machine can spoil a
    run, so a claim that fails is measured again, three times in all."""
    if isinstance(test, type):
        for name in [n for n in vars(test) if n.startswith("test_")]:
            setattr(test, name, measured(vars(test)[name]))
        return test

    @functools.wraps(test)
    def repeated(self):
        for n_left in (2, 1, 0):
            try:
                return test(self)
            except AssertionError as error:
                if n_left == 0:
                    raise
                print(f"measured again: {error}", flush=True)
                self.doCleanups()
                self.setUp()
    return repeated


class EndToEnd(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="surety-e2e-")
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", self.folder], check=False))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, contents):
        with open(self.path(name), "wb") as f:
            f.write(contents if isinstance(contents, bytes) else contents.encode())
        return self.path(name)

    def eventually(self, check, what="a condition", seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if check():
                return
            time.sleep(0.02)
        self.fail(f"{what} did not become true in {seconds} s")

    def documented(self, value, page="cli.md"):
        """Every key is in the document, every number is finite."""
        if isinstance(value, dict):
            for key, item in value.items():
                self.assertIn(key, documented_fields(page), f"{key} is not in docs/{page}")
                self.documented(item, page)
        elif isinstance(value, list):
            for item in value:
                self.documented(item, page)
        elif isinstance(value, float):
            self.assertTrue(math.isfinite(value))

    def ok(self, *args, **kwargs):
        outcome = surety(*args, **kwargs)
        self.assertEqual(outcome.code, 0, outcome.err)
        return outcome

    def fails(self, code, *args, says=(), **kwargs):
        """The program ends with this code and one error line that contains each of `says`; it never crashes."""
        outcome = surety(*args, **kwargs)
        self.assertEqual(outcome.code, code, (args, outcome.out, outcome.err))
        self.assertIn("surety: error: ", outcome.err)
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, outcome.err)
        return outcome


def main():
    """unittest's main; exits with 77 (skipped) where the model is absent."""
    if not os.path.exists(BINARY):
        sys.exit(f"{BINARY} is not built")
    if model_path() is None:
        print(f"skipped: {MODEL} is not on this machine (surety models pull {MODEL})")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)

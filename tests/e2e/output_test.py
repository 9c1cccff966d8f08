#!/usr/bin/env python3
"""Where output goes: lost output is a failure, --json is UTF-8 whatever went in, files are put in place with care."""

import json
import os
import shutil
import subprocess

import common
from common import MODEL, EndToEnd, surety

TINY = os.path.join(common.TESTDATA, "gguf", "tiny-llama-q8_0.gguf")
ENCODER = "all-MiniLM-L6-v2"


def shell(command, *args):
    """The program in a shell, for redirections; `$@` stands for its arguments."""
    return subprocess.run(["sh", "-c", command, "sh", common.BINARY, *map(str, args)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=common.TIMEOUT_S, check=False)


class LostOutputTest(EndToEnd):
    COMMANDS = (("--help",), ("--version",), ("version",), ("version", "--json"), ("models",), ("models", "--json"),
                ("inspect", TINY), ("inspect", TINY, "--json"), ("inspect", MODEL, "--template"),
                ("run", "-m", MODEL, "-p", "Hi", "-n", "2"), ("run", "-m", MODEL, "-p", "Hi", "-n", "2", "--json"),
                ("chat", "-m", MODEL, "-n", "2"),
                ("bench", "-m", MODEL, "--prompt", "16", "--gen", "0", "--depth", "0", "-r", "1", "--quick-roofs"))

    def test_a_full_or_closed_standard_output_fails_and_says_so(self):
        text = self.write("text.txt", "Some words, and some more words.")
        commands = [*self.COMMANDS, ("perplexity", "-m", MODEL, "-f", text)]
        if surety("models", "path", ENCODER).code == 0:
            commands.append(("embed", "-m", ENCODER, "a", "b"))
        for command in commands:
            for redirection in (">/dev/full", ">&-"):
                with self.subTest(command=command, redirection=redirection):
                    done = shell(f'"$@" {redirection}', *command)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn(b"surety: error: standard output: ", done.stderr)

    def test_a_full_or_closed_standard_error_changes_nothing(self):
        for redirection in ("2>/dev/full", "2>&-"):
            with self.subTest(redirection=redirection):
                done = shell(f'"$@" {redirection}', "run", "-m", MODEL, "-p", "Hi", "-n", "2")
                self.assertEqual(done.returncode, 0)
                self.assertTrue(done.stdout.strip())
                self.assertEqual(shell(f'"$@" {redirection}', "run", "--bad").returncode, 2)
                self.assertEqual(shell(f'"$@" {redirection}', "inspect", "absent.gguf").returncode, 1)

    def test_the_code_of_a_failure_stays_when_output_is_lost_too(self):
        self.assertEqual(shell('"$@" >/dev/full', "run", "--bad").returncode, 2)


class Utf8Test(EndToEnd):
    def check(self, *args, **kwargs):
        outcome = subprocess.run([os.fsencode(common.BINARY), *map(os.fsencode, args)], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **kwargs)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return json.loads(outcome.stdout.decode("utf-8"))

    def test_json_is_utf8_whatever_the_paths_are(self):
        folder = os.path.join(os.fsencode(self.folder), b"caf\xe9")
        os.mkdir(folder)
        model = os.path.join(folder, b"na\xefve.gguf")
        shutil.copy(TINY, model)
        env = {**os.environ, "SURETY_MODELS": os.fsdecode(folder)}
        self.assertEqual(self.check("inspect", model, "--json")["path"][-15:], "caf\ufffd/na\ufffdve.gguf"[-15:])
        self.assertEqual(self.check("version", "--json", env=env)["models_directory"][-4:], "caf\ufffd")
        listed = self.check("models", "--json", env=env)
        self.assertIn("na\ufffdve", [entry["name"] for entry in listed["models"]])
        self.assertEqual(self.check("run", "-m", model, "-p", "x", "-n", "1", "--raw", "--json")["model"],
                         "na\ufffdve")


if __name__ == "__main__":
    common.main()

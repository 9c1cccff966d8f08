#!/usr/bin/env python3
"""surety models: list, add from a path and from an address, refuse what differs, remove."""

import fcntl
import functools
import hashlib
import http.server
import os
import shutil
import threading

import common
from common import MODEL, EndToEnd, model_path

TINY = os.path.join(common.TESTDATA, "gguf", "tiny-llama-q8_0.gguf")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


class ModelsTest(EndToEnd):
    def setUp(self):
        super().setUp()
        self.env = {"SURETY_MODELS": self.path("models")}

    def state(self, name):
        models = self.ok("models", "--json", env=self.env).json()["models"]
        return next((model["state"] for model in models if model["name"] == name), None)

    def test_catalogue_is_listed_with_licence_and_digest(self):
        for model in self.ok("models", "--json", env=self.env).json()["models"]:
            self.assertEqual(model["state"], "absent")
            self.assertTrue(model["licence"])
            self.assertEqual(len(model["sha256"]), 64)

    def test_from_path_path_and_rm(self):
        self.ok("models", "pull", "--from", TINY, "--name", "tiny", env=self.env)
        self.assertEqual(self.state("tiny"), "local")
        path = self.ok("models", "path", "tiny", env=self.env).out.strip()
        with open(path, "rb") as a, open(TINY, "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.ok("models", "rm", "tiny", env=self.env)
        self.assertIsNone(self.state("tiny"))
        self.fails(1, "models", "rm", "tiny", env=self.env)

    def test_catalogue_model_from_path_is_checked(self):
        self.ok("models", "pull", "--from", model_path(), "--name", MODEL, env=self.env)
        self.assertEqual(self.state(MODEL), "local")
        self.fails(1, "models", "pull", "--from", TINY, "--name", "gemma-3-270m", env=self.env,
                   says=("SHA-256", "refused"))
        self.assertEqual(self.state("gemma-3-270m"), "absent")
        self.assertEqual(os.listdir(os.path.join(self.env["SURETY_MODELS"], ".staging")), [])

    def test_folder_from_path(self):
        folder = os.path.join(common.TESTDATA, "tiny", "llama")
        self.ok("models", "pull", "--from", folder, "--name", "tiny-folder", env=self.env)
        kept = self.ok("models", "path", "tiny-folder", env=self.env).out.strip()
        self.assertEqual(sorted(os.listdir(kept)), sorted(os.listdir(folder)))

    def staging(self):
        folder = os.path.join(self.env["SURETY_MODELS"], ".staging")
        return os.listdir(folder) if os.path.exists(folder) else []

    def test_digest_of_a_copied_file_is_checked(self):
        with open(TINY, "rb") as f:
            digest = hashlib.sha256(f.read()).hexdigest()
        pull = ("models", "pull", "--from", TINY, "--name", "tiny")
        self.fails(1, *pull, "--sha256", "0" * 64, env=self.env, says=("SHA-256", "refused"))
        self.fails(2, *pull, "--sha256", "0" * 63, env=self.env, says="--sha256")
        self.fails(2, *pull, "--sha256", "g" * 64, env=self.env, says="--sha256")
        self.assertIsNone(self.state("tiny"))
        self.assertEqual(self.staging(), [])
        self.ok(*pull, "--sha256", digest.upper(), env=self.env)

    def test_what_is_no_model_is_not_put_in_place(self):
        text = self.write("text.gguf", "no model")
        os.mkdir(self.path("empty"))
        os.mkdir(self.path("notes"))
        self.write("notes/readme.txt", "no model either")
        self.fails(1, "models", "pull", "--from", text, env=self.env, says="not a model")
        self.fails(1, "models", "pull", "--from", self.path("empty"), env=self.env, says="empty")
        self.fails(1, "models", "pull", "--from", self.path("notes"), env=self.env, says="not a model")
        self.assertEqual([self.state(name) for name in ("text", "empty", "notes")], [None] * 3)
        self.assertEqual(self.staging(), [])

    def test_a_name_in_use_is_replaced_only_by_force(self):
        folder = os.path.join(common.TESTDATA, "tiny", "llama")
        self.ok("models", "pull", "--from", TINY, "--name", "tiny", env=self.env)
        self.fails(1, "models", "pull", "--from", folder, "--name", "tiny", env=self.env, says="--force")
        self.ok("models", "pull", "--from", folder, "--name", "tiny", "--force", env=self.env)
        self.assertTrue(os.path.isdir(self.ok("models", "path", "tiny", env=self.env).out.strip()))
        self.ok("models", "pull", "--from", TINY, "--name", "tiny", "--force", env=self.env)
        self.assertTrue(os.path.isfile(self.ok("models", "path", "tiny", env=self.env).out.strip()))

    def test_a_second_pull_of_the_same_model_is_refused(self):
        os.makedirs(os.path.join(self.env["SURETY_MODELS"], ".staging"))
        with open(os.path.join(self.env["SURETY_MODELS"], ".staging", ".tiny.lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.fails(1, "models", "pull", "--from", TINY, "--name", "tiny", env=self.env, says="another pull of tiny")
        self.ok("models", "pull", "--from", TINY, "--name", "tiny", env=self.env)
        self.assertEqual(self.staging(), [])

    def test_names_that_would_leave_the_folder(self):
        for name in ("../x", "a/b", ".hidden", ""):
            self.fails(2, "models", "pull", "--from", TINY, "--name", name, env=self.env)
        self.fails(2, "models", "rm", "../models", env=self.env)

    def test_address_that_is_not_https(self):
        self.fails(1, "models", "pull", "--url", "http://example.invalid/x.gguf", env=self.env, says="https")
        self.fails(1, "models", "pull", "--url", "file:///etc/x.gguf", env=self.env, says="https")
        for host in ("127.0.0.1.evil.invalid", "localhost@evil.invalid", "localhost:80@evil.invalid", "localhosts",
                     "127.0.0.1:x.invalid", "127.0.0.1\\@evil.invalid"):
            self.fails(1, "models", "pull", "--url", f"http://{host}/x.gguf", env=self.env, says="only https")

    def test_a_fetch_over_https_never_leaves_it(self):
        os.mkdir(self.path("bin"))
        curl = self.write("bin/curl", f"#!/bin/sh\necho \"$@\" > {self.path('arguments')}\nexit 22\n")
        os.chmod(curl, 0o755)
        env = {**self.env, "PATH": self.path("bin") + ":" + os.environ["PATH"]}
        for url, protocols in (("https://example.invalid/x.gguf", "=https"),
                               ("http://localhost:1/x.gguf", "=http,https")):
            self.fails(1, "models", "pull", "--url", url, env=env, says="curl")
            with open(self.path("arguments"), encoding="utf-8") as f:
                self.assertIn(f"--proto {protocols} --proto-redir {protocols} ", f.read())

    def test_missing_pip_is_explained(self):
        self.fails(1, "models", "pull", MODEL, env={**self.env, "SURETY_PYTHON": self.path("no-python")},
                   says=("SURETY_PYTHON", "no-python", "pip"))
        self.assertEqual(self.state(MODEL), "partial")
        empty = self.path("bin")  # an empty value is none: python3 is looked for
        os.mkdir(empty)
        self.fails(1, "models", "pull", MODEL, env={**self.env, "SURETY_PYTHON": "", "PATH": empty}, says="python3-pip")

    def test_unwritable_folder(self):
        blocker = self.write("file", "")
        self.fails(1, "models", "pull", "--from", TINY, "--name", "x", env={"SURETY_MODELS": blocker + "/models"})


@common.unittest.skipUnless(shutil.which("curl"), "curl is not installed")
class UrlTest(EndToEnd):
    def setUp(self):
        super().setUp()
        self.env = {"SURETY_MODELS": self.path("models")}
        os.mkdir(self.path("www"))
        shutil.copy(TINY, self.path("www/tiny.gguf"))
        self.write("www/page.gguf", "<html>no such file</html>")
        handler = functools.partial(QuietHandler, directory=self.path("www"))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.base = f"http://127.0.0.1:{server.server_address[1]}"
        with open(TINY, "rb") as f:
            self.digest = hashlib.sha256(f.read()).hexdigest()

    def pull(self, file, *args):
        return ("models", "pull", "--url", f"{self.base}/{file}", *args)

    def test_file_with_the_right_digest(self):
        self.ok(*self.pull("tiny.gguf", "--sha256", self.digest), env=self.env)
        self.ok("inspect", "tiny", env=self.env)

    def test_without_digest_the_one_found_is_told(self):
        self.assertIn(self.digest, self.ok(*self.pull("tiny.gguf"), env=self.env).err)

    def test_wrong_digest_wrong_content_and_absent_file(self):
        self.fails(1, *self.pull("tiny.gguf", "--sha256", "0" * 64), env=self.env, says="refused")
        self.fails(1, *self.pull("page.gguf"), env=self.env, says="not a model")
        self.fails(1, *self.pull("absent.gguf"), env=self.env, says="curl")
        self.fails(1, "models", "path", "tiny", env=self.env)


if __name__ == "__main__":
    common.main()

#!/usr/bin/env python3
"""surety models: list, add from a path and from an address, refuse what differs, remove."""

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

    def test_names_that_would_leave_the_folder(self):
        for name in ("../x", "a/b", ".hidden", ""):
            self.fails(2, "models", "pull", "--from", TINY, "--name", name, env=self.env)
        self.fails(2, "models", "rm", "../models", env=self.env)

    def test_address_that_is_not_https(self):
        self.fails(1, "models", "pull", "--url", "http://example.invalid/x.gguf", env=self.env, says="https")
        self.fails(1, "models", "pull", "--url", "file:///etc/x.gguf", env=self.env, says="https")

    def test_missing_pip_is_explained(self):
        self.fails(1, "models", "pull", MODEL, env={**self.env, "SURETY_PYTHON": self.path("no-python")}, says="pip")
        self.assertEqual(self.state(MODEL), "partial")

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

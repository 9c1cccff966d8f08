"""A `surety serve` that runs while a test does, and the Python environments that some of its clients need."""

import http.client
import importlib.util
import json
import os
import re
import signal
import sys
import threading

from common import MODEL, ROOT, SKIPPED, start

PROMPT = "The history of banking began when merchants lent grain to farmers and traders. " * 12


class Server:
    """`owner`: the test, or the test class, with which the server ends."""

    def __init__(self, owner, *args, ctx=1024, env=None, model=MODEL):
        self.process = start("serve", *(["-m", model] if model else []), "--port", "0", "--json", "-c", ctx, *args,
                             env={**os.environ, **(env or {})})
        (owner.addClassCleanup if isinstance(owner, type) else owner.addCleanup)(self.kill)
        line = self.process.stdout.readline()
        self.reader = None
        if not line:
            raise AssertionError(self.process.stderr.read().decode())
        self.ready = json.loads(line)
        self.log = []
        self.reader = threading.Thread(target=self.drain, daemon=True)
        self.reader.start()
        self.port = self.ready["port"]
        self.admin = int(self.ready["admin_url"].rsplit(":", 1)[1]) if "admin_url" in self.ready else None

    def drain(self):
        for line in self.process.stderr:
            self.log.append(line.decode())

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        if self.reader is not None:
            self.reader.join()
        self.process.stderr.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def call(self, method, path, body=None, key=None, port=None, raw=False):
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=120)
        try:
            headers = {"Content-Type": "application/json"}
            if key:
                headers["Authorization"] = "Bearer " + key
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read().decode()
            return response.status, text if raw else json.loads(text), dict(response.getheaders())
        finally:
            connection.close()

    def complete(self, prompt=PROMPT, key=None, **more):
        body = {"model": MODEL, "prompt": prompt, "max_tokens": 8, "temperature": 0, **more}
        status, answer, _ = self.call("POST", "/v1/completions", body, key)
        if status != 200:
            raise AssertionError((status, answer))
        return answer

    def metric(self, name, key=None, **labels):
        """Sum of the series of this name that have these labels."""
        _, text, _ = self.call("GET", "/metrics", key=key, raw=True)
        total, found = 0.0, False
        for line in text.splitlines():
            match = re.match(r"([a-zA-Z_:]+)(?:\{(.*)\})? (\S+)$", line)
            if match and match.group(1) == name:
                has = dict(re.findall(r'(\w+)="([^"]*)"', match.group(2) or ""))
                if all(has.get(k) == v for k, v in labels.items()):
                    total, found = total + float(match.group(3)), True
        if not found:
            raise AssertionError(f"no series {name} {labels}")
        return total

    def send_stream(self, **more):
        body = {"model": MODEL, "prompt": PROMPT, "max_tokens": 400, "temperature": 0, "stream": True,
                "ignore_eos": True, **more}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        return connection

    def open_stream(self, **more):
        connection = self.send_stream(**more)
        return connection, connection.getresponse()


def need(folder, install, *modules):
    """Goes on if the modules are there; else runs the test again with the Python of .cache/FOLDER, into which
    `install` puts them; else ends the test as skipped, with a message."""
    if all(importlib.util.find_spec(module) for module in modules):
        return
    cache = os.path.join(ROOT, ".cache")
    own = os.path.join(cache, folder, "bin", "python3")
    if os.path.exists(own) and not sys.prefix.startswith(cache):
        os.execv(own, [own, *sys.argv])
    print(f"skipped: {' or '.join(modules)} is absent; {install} installs it")
    sys.exit(SKIPPED)

#!/usr/bin/env python3
"""surety serve over raw sockets, with clients that leave after any byte: nothing leaks, whole answers are right.

SURETY_SOAK_REQUESTS / 20 requests (5,000 by default) from SURETY_SOAK_SEED, on a tiny model.
"""

import json
import os
import random
import signal
import socket
import struct
import sys
import threading
import time
import unittest

import common
from common import EndToEnd, start

REQUESTS = max(100, int(os.environ.get("SURETY_SOAK_REQUESTS", "100000")) // 20)
SEED = int(os.environ.get("SURETY_SOAK_SEED", "1"))
CLIENTS = 32
MODEL_FILE = os.path.join(common.TESTDATA, "gguf", "tiny-llama-q8_0.gguf")
MODEL = "tiny-llama-q8_0"
# The server's resident set in the second half over the most of the first: the allocator's unevenness.
GROWTH_BYTES = 12 << 20
WORDS = ["the ", "bank ", "of a ", "loan ", "12 ", "\u00e9 ", "e"]


class Plan:
    """What client number `index` does; equal seeds give equal plans."""

    def __init__(self, index, keys):
        draw = random.Random(f"{SEED}/{index}")
        self.known = draw.random() < 0.1
        self.key = draw.choice(keys)
        document = random.Random(f"{SEED}/document/{draw.randrange(6)}")
        prompt = "".join(document.choice(WORDS) for _ in range(draw.randrange(1, 22)))
        self.body = {"model": MODEL, "max_tokens": draw.choice([1, 2, 4, 8, 30, 60]), "stream": draw.random() < 0.6}
        self.chat = draw.random() < 0.3
        if self.chat:
            self.body["messages"] = [{"role": "user", "content": prompt}]
        else:
            self.body["prompt"] = prompt
        if draw.random() < 0.2:
            self.body["n"] = draw.randrange(2, 4)
        if draw.random() < 0.2:
            self.body["stop"] = ["e"]
        if draw.random() < 0.2:
            self.body["cache_salt"] = draw.choice("stu")
        if draw.random() < 0.1:
            self.body["timeout"] = draw.choice([0.001, 0.01, 0.05])
        if draw.random() < 0.05:
            self.body["grammar"] = 'root ::= "yes" | "no"'
        if draw.random() < 0.03:
            self.body["temperature"] = 7  # refused
        self.body["seed"] = draw.randrange(1000)
        if self.known:
            self.chat, self.key = False, keys[0]
            self.body = {"model": MODEL, "prompt": f"the loan of bank {draw.randrange(4)}", "max_tokens": 12,
                         "temperature": 0}
        self.how = "whole" if self.known else draw.choice(
            ["whole", "whole", "cut_request", "leave", "leave_later", "cut_answer", "half_close", "slow", "garbage"])
        self.reset = draw.random() < 0.5
        self.share, self.delay = draw.random(), draw.choice([0, 0.001, 0.01, 0.05])

    def bytes(self, close):
        body = json.dumps(self.body).encode()
        path = "/v1/chat/completions" if self.chat else "/v1/completions"
        return (f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.key}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                f"{'Connection: close' if close else 'X-A: b'}\r\n\r\n").encode() + body


def read_all(connection):
    data = b""
    while piece := connection.recv(65536):
        data += piece
    return data


class SoakTest(EndToEnd):
    def start_server(self):
        keys = self.path("keys.jsonl")
        self.keys = [self.ok("keys", "add", "--file", keys, "--name", name).out.strip() for name in ("a", "b", "c")]
        self.root = self.ok("keys", "add", "--file", keys, "--name", "ops", "--role", "admin").out.strip()
        self.server = start("serve", "-m", MODEL_FILE, "--port", "0", "--admin-port", "0", "--json", "-c", "128",
                            "--api-keys", keys, "--parallel", "24", "--queue", "3", "--kv-memory", "1",
                            "--kv-type", "f32", "--host-cache", "1", "--threads", "1")
        self.addCleanup(self.kill)
        self.ready = json.loads(self.server.stdout.readline())
        self.admin = int(self.ready["admin_url"].rsplit(":", 1)[1])
        self.reader = threading.Thread(target=self.server.stderr.read, daemon=True)
        self.reader.start()

    def kill(self):
        if self.server.poll() is None:
            self.server.kill()
        self.server.wait()
        self.reader.join()
        self.server.stdout.close()
        self.server.stderr.close()

    def call(self, method, path, body=None, port=None):
        text = b"" if body is None else json.dumps(body).encode()
        with socket.create_connection(("127.0.0.1", port or self.ready["port"]), timeout=30) as connection:
            connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.root}\r\n"
                               f"Content-Length: {len(text)}\r\nContent-Type: application/json\r\n"
                               f"Connection: close\r\n\r\n".encode() + text)
            head, _, answer = read_all(connection).partition(b"\r\n\r\n")
        return int(head.split()[1]), answer.decode()

    def state(self):
        return json.loads(self.call("GET", "/admin/state", port=self.admin)[1])["models"][0]

    def resident(self):
        with open(f"/proc/{self.server.pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.server.pid}/fd"))

    def one(self, index):
        plan = Plan(index, self.keys)
        data = plan.bytes(close=plan.how in ("whole", "slow", "half_close"))
        with socket.create_connection(("127.0.0.1", self.ready["port"]), timeout=60) as connection:
            try:
                self.act(plan, connection, data)
            except (ConnectionError, BrokenPipeError):
                self.assertNotIn(plan.how, ("whole", "slow"), plan.body)
            if plan.reset and plan.how not in ("whole", "slow"):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def act(self, plan, connection, data):
        cut = int(plan.share * len(data))
        if plan.how == "cut_request":
            connection.sendall(data[:cut])
            time.sleep(plan.delay)
        elif plan.how == "garbage":
            connection.sendall(data[:cut] + bytes(random.Random(cut).randrange(256) for _ in range(40)) + data[cut:])
            connection.recv(100)
        elif plan.how == "slow":
            for at in range(0, len(data), 100):
                connection.sendall(data[at:at + 100])
                time.sleep(0.001)
            self.check(plan, read_all(connection))
        else:
            connection.sendall(data)
            if plan.how == "whole":
                self.check(plan, read_all(connection))
            elif plan.how == "half_close":
                connection.shutdown(socket.SHUT_WR)
                read_all(connection)
            elif plan.how == "leave_later":
                time.sleep(plan.delay)
            elif plan.how == "cut_answer":
                connection.recv(1 + int(plan.share * 2000))

    def check(self, plan, data):
        """A whole answer, by HTTP's own framing."""
        head, _, body = data.partition(b"\r\n\r\n")
        status = int(head.split()[1])
        with self.lock:
            self.statuses[status] = self.statuses.get(status, 0) + 1
        self.assertIn(status, (200, 400, 408, 429), data[:500])
        lower = head.lower()
        if b"content-length:" in lower:
            self.assertEqual(len(body), int(lower.split(b"content-length:")[1].split()[0]))
        if status != 200:
            return
        if plan.body.get("stream"):
            text = body.decode()
            self.assertTrue("data: [DONE]" in text or '"error"' in text, text[-500:])
            return
        answer = json.loads(body)
        self.assertEqual(len(answer["choices"]), plan.body.get("n", 1))
        if plan.known:
            with self.lock:
                texts = self.known.setdefault(plan.body["prompt"], set())
                texts.add(answer["choices"][0]["text"])

    def work(self):
        while True:
            with self.lock:
                index, self.next = self.next, self.next + 1
            if index >= REQUESTS or self.failures_seen:
                return
            try:
                self.one(index)
            except Exception as error:  # reported by the test's own thread
                self.failures_seen.append(f"request {index}: {error!r}")
                return

    def watch(self, workers):
        """Meanwhile: forget scopes, read the state and the memory."""
        most, told = [0, 0], time.monotonic()
        draw = random.Random(SEED)
        while any(worker.is_alive() for worker in workers):
            time.sleep(0.05)
            done = self.next / REQUESTS
            if done > 0.1:
                half = int(done >= 0.5)
                most[half] = max(most[half], self.resident())
            if draw.random() < 0.05:
                self.call("POST", "/admin/forget", {"tenant": draw.choice("abc")}, self.admin)
            self.assertEqual(self.call("GET", "/health/ready")[0], 200)
            if time.monotonic() - told > 5:
                told = time.monotonic()
                print(f"  {self.next} of {REQUESTS} requests, {self.resident() >> 20} MiB resident, "
                      f"{self.descriptors()} descriptors", flush=True)
        return most

    def test_nothing_leaks_whatever_clients_do(self):
        self.start_server()
        self.lock, self.next, self.statuses, self.known, self.failures_seen = threading.Lock(), 0, {}, {}, []
        descriptors = self.descriptors()
        workers = [threading.Thread(target=self.work) for _ in range(CLIENTS)]
        for worker in workers:
            worker.start()
        most = self.watch(workers)
        self.assertEqual(self.failures_seen, [])
        end = time.monotonic() + 30
        while True:
            state = self.state()
            open_now = [state[name] for name in ("requests_open", "requests_waiting", "sequences_running")]
            if open_now == [0, 0, 0] and self.descriptors() <= descriptors + 1:
                break
            self.assertLess(time.monotonic(), end, (state, self.descriptors(), descriptors))
            time.sleep(0.1)
        self.assertEqual(state["pages"] - state["pages_free"], state["cache_pages"])
        for tenant in "abc":
            self.call("POST", "/admin/forget", {"tenant": tenant}, self.admin)
        self.assertEqual(self.state()["pages_free"], state["pages"])
        self.assertEqual({prompt: len(texts) for prompt, texts in self.known.items()},
                         {prompt: 1 for prompt in self.known})
        self.assertGreater(self.statuses.get(200, 0), REQUESTS / 20)
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(60), 0)
        print(f"  {REQUESTS} requests; whole answers by status {self.statuses}; resident at most {most[0] / 2**20:.1f} "
              f"MiB in the first half, {most[1] / 2**20:.1f} in the second; at the end {json.dumps(state)}")
        self.assertLessEqual(most[1], most[0] + GROWTH_BYTES)


if __name__ == "__main__":
    if not os.path.exists(common.BINARY):
        sys.exit(f"{common.BINARY} is not built")
    unittest.main(verbosity=2)

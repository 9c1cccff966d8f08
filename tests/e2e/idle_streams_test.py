#!/usr/bin/env python3
"""Five hundred streams that wait cost the server little memory, hold nobody up, and leave nothing behind."""

import json
import os
import select
import socket
import time

import common
from common import EndToEnd, MODEL, measured
from serving import PROMPT, Server

N_STREAMS = 500
N_HOLDERS = 24  # one after the other, they hold the only place in the batch for as long as the test runs
N_WARM = 3
MAX_GROWTH_BYTES = 100e6
ROUNDS = 3
SLACK_BYTES = 6e6  # of the allocator; streams that leak would cost ROUNDS times what the first ones did
ANSWERS_WITHIN_S = 2


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS:"))


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


@measured
class IdleStreamsTest(EndToEnd):
    def settled_files(self):
        """Without the connections of questions just answered, which the server is about to close."""
        for _ in range(10):
            yield open_files(self.pid)
            time.sleep(0.05)

    def open_streams(self):
        """Streamed chats that wait in the queue: their heads have been read, their answers have not begun."""
        sockets = []
        for i in range(N_STREAMS):
            body = json.dumps({"model": MODEL, "stream": True, "max_tokens": 4,
                               "messages": [{"role": "user", "content": f"Say hello to number {i}."}]}).encode()
            sock = socket.create_connection(("127.0.0.1", self.server.port), timeout=10)
            self.addCleanup(sock.close)
            sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                         b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            sockets.append(sock)
        self.eventually(lambda: self.n_waiting() == N_STREAMS, "all are waiting")
        return sockets

    def n_waiting(self):
        """Of the idle streams: without the holders that have not begun to answer."""
        held = len(self.holders) - len(select.select(self.holders, [], [], 0)[0])
        return self.server.metric("surety_num_requests_waiting") - held

    def close_streams(self, sockets):
        for sock in sockets:
            sock.close()
        self.eventually(lambda: self.n_waiting() == 0, "none waits any more")
        self.eventually(lambda: open_files(self.pid) <= self.files, "all files are closed")

    def answers(self):
        """It answers others meanwhile, and the request that runs goes on."""
        made = self.server.metric("surety_generation_tokens_total")
        for method, path, body in (("GET", "/health/ready", None), ("GET", "/v1/models", None),
                                   ("POST", "/tokenize", {"content": "hello"})):
            begin = time.monotonic()
            status, text, _ = self.server.call(method, path, body, raw=True)
            self.assertEqual(status, 200, text)
            self.assertLess(time.monotonic() - begin, ANSWERS_WITHIN_S, path)
        self.eventually(lambda: self.server.metric("surety_generation_tokens_total") > made, "tokens are made")

    def test_they_cost_little_and_leave_nothing(self):
        self.server = Server(self, "--parallel", "1", "--queue", str(N_STREAMS + N_HOLDERS), "--max-wait", "0",
                             "--kv-memory", "12", ctx=512)
        self.pid = self.server.process.pid
        for i in range(N_WARM):  # together they touch all KV memory, which is not what is measured here
            self.server.complete(f"{i} {PROMPT * 2}", max_tokens=1)
        connections = [self.server.send_stream(prompt="Once", max_tokens=480) for _ in range(N_HOLDERS)]
        self.holders = [connection.sock for connection in connections]
        self.eventually(lambda: self.server.metric("surety_num_requests_waiting") == N_HOLDERS - 1, "one runs")
        self.files = min(self.settled_files())
        before = resident_bytes(self.pid)

        sockets = self.open_streams()
        cost = resident_bytes(self.pid) - before
        self.assertLess(cost, MAX_GROWTH_BYTES)
        self.assertGreaterEqual(open_files(self.pid), self.files + N_STREAMS)
        self.answers()
        self.assertEqual(select.select(sockets, [], [], 0)[0], [])  # nobody has been answered or cut off
        self.close_streams(sockets)
        after = resident_bytes(self.pid) - before

        # The allocator may keep what was freed, so the proof that it was freed is that others can have it.
        for _ in range(ROUNDS):
            sockets = self.open_streams()
            self.answers()
            self.close_streams(sockets)
        again = resident_bytes(self.pid) - before
        print(f"{N_STREAMS} idle streams: {cost / 1e6:.1f} MB, {cost / N_STREAMS / 1e3:.1f} kB each; "
              f"{after / 1e6:.1f} MB after them; {again / 1e6:.1f} MB after {ROUNDS} times as many")
        self.assertLess(after, cost + SLACK_BYTES)
        self.assertLess(again, cost + SLACK_BYTES)

        n_ended = self.server.metric("surety_request_success_total", finished_reason="length")
        for connection in connections:
            connection.close()
        self.eventually(lambda: self.server.metric("surety_request_success_total", finished_reason="abort") ==
                        (1 + ROUNDS) * N_STREAMS + N_HOLDERS + N_WARM - n_ended, "each ended once")
        self.eventually(lambda: self.server.metric("surety_num_requests_waiting") == 0, "the gauge says so too")
        self.assertEqual(self.server.complete("One, two,")["usage"]["completion_tokens"], 8)
        self.assertEqual(self.server.stop(), 0)


if __name__ == "__main__":
    common.main()

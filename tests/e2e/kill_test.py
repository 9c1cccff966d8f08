#!/usr/bin/env python3
"""kill -9 of the whole server at random moments under load: released answers, reviews and writes are in the log, and no
write happens twice.

SURETY_KILLS=1000 for a release (docs/testing.md has the figures); SURETY_KILL_SEED chooses other moments. The model and
the tool that writes are servers of this process, which live through every kill, so they know what really happened.
"""

import collections
import http.client
import json
import os
import random
import socketserver
import sqlite3
import threading
import time

from common import EndToEnd, start
from serving import Server

KILLS = int(os.environ.get("SURETY_KILLS", "12"))
SEED = int(os.environ.get("SURETY_KILL_SEED", "7"))
STATES = ("open", "approved", "rejected", "erased")
MODEL_TEXT = "The branch is glad to help with that."
POLICY = """
policy: {id: desk, version: "1", effective_from: 2026-01-01T00:00:00Z, currency: USD, max_attempts: 2}
identity:
  tenant: {from: token.claim, claim: tenant, required: true}
  permissions: {from: token.claim, claim: permissions, required: true}
  region: {from: token.claim, claim: region}
  eligibility: {from: token.claim, claim: eligibility}
  product: {from: request.metadata, values: [checking]}
  language: {from: request.metadata, values: [en]}
  policy_version: {from: policy}
  effective_date: {from: clock}
models:
  far: {engine: remote, api_base: "http://127.0.0.1:PORT/v1", model: scripted, residency: [US], timeout: 10s}
tools:
  pay: {kind: write, url: "http://127.0.0.1:PORT/pay", arguments: [order], deadline: 5s}
signals:
  intent: {by: phrases, labels: {hours: [opening hours], held: [kept back], draft: [a draft], money: [a refund]}}
  order: {by: metadata, values: ["1", "2", "3"]}
verifiers:
  promises: {kind: phrases, phrases: [we guarantee], fail: block, error: review}
templates:
  faq: {version: "1", texts: {hours: We open at nine.}}
routes:
  - name: money
    when: {intent: money}
    model: far
    tools: [pay]
    verify: [promises]
    release: {audience: customer, mode: held, review: desk}
    max_output_tokens: 40
    deadline: 10s
  - {name: faq, when: {intent: hours}, answer: template, template: faq, release: {audience: customer, mode: held}}
  - name: held
    when: {intent: held}
    model: far
    queue: desk
    verify: [promises]
    release: {audience: customer, mode: held}
    max_output_tokens: 40
    deadline: 10s
  - name: draft
    when: {intent: draft}
    model: far
    verify: [promises]
    release: {audience: internal, mode: stream}
    max_output_tokens: 40
    deadline: 10s
  - {name: otherwise, when: always, answer: human, queue: desk}
review:
  desk: {lease: 1s, approvals: 1, exclude: [author], reasons_required: true, permission: supervise}
"""


class Outside(socketserver.ThreadingTCPServer):
    """The remote model, and the system that pays. `effects`: how often each idempotency key had an effect."""
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), OutsideHandler)
        self.effects = collections.Counter()
        self.lock = threading.Lock()
        self.chance = random.Random(SEED)
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    def handle_error(self, request, client_address):
        """Its clients are killed; a connection that broke is no error here."""


class OutsideHandler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self):
        while line := self.rfile.readline():
            headers = {}
            while header := self.rfile.readline().strip():
                name, _, value = header.partition(b":")
                headers[name.lower().decode()] = value.strip().decode()
            self.rfile.read(int(headers.get("content-length", 0)))
            self.answer(line.split()[1].decode(), headers)

    def answer(self, path, headers):
        if path == "/pay":
            time.sleep(self.server.chance.uniform(0, 0.01))
            with self.server.lock:
                self.server.effects[headers["idempotency-key"]] += 1
            time.sleep(self.server.chance.uniform(0, 0.01))
            self.send(json.dumps({"paid": True}))
        elif path == "/v1/models":
            self.send(json.dumps({"object": "list", "data": [{"id": "scripted", "object": "model"}]}))
        else:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                             b"Transfer-Encoding: chunked\r\n\r\n")
            for word in MODEL_TEXT.split(" "):
                self.event({"delta": {"content": word + " "}})
                time.sleep(0.002)
            self.event({"delta": {}, "finish_reason": "stop"})
            self.chunk(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

    def send(self, text):
        self.wfile.write(f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                         f"Content-Length: {len(text)}\r\n\r\n{text}".encode())

    def event(self, choice):
        self.chunk(b"data: " + json.dumps({"choices": [{"index": 0, **choice}]}).encode() + b"\n\n")

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


class Seen:
    """What clients and reviewers were told."""

    def __init__(self):
        self.answered = set()    # decisions whose answer came whole
        self.begun = set()       # streams of which text came
        self.tickets = {}        # by ticket: the decision
        self.approved = set()    # tickets whose approval was answered with 200
        self.rejected = set()    # tickets of which nobody was told
        self.released = {}       # by decision: the text that its caller got after the review
        self.unknown = set()     # decisions whose approved write nobody knows the end of


class Left:
    """What lies in the log and the review queue, and what the outside saw."""

    def __init__(self, rows, tickets, effects):
        self.rows = collections.defaultdict(list)
        for row in rows:
            self.rows[row["kind"]].append(row["body"])
        self.tickets = tickets   # by id: state, decision
        self.effects = effects


def violations(seen, left):
    """What must never be. A list of sentences; empty: all holds."""
    out = []
    decided = collections.Counter(row["id"] for row in left.rows["decision"])
    begun = {row["id"] for row in left.rows["stream_begin"]}
    released = collections.Counter(row["id"] for row in left.rows["release"] if row["state"] == "approved")
    intents = collections.Counter(row["id"] for row in left.rows["tool_intent"])
    case_of = {row["id"]: row["case"] for row in left.rows["tool_intent"]}
    state_of = {ticket["decision"]: ticket["state"] for ticket in left.tickets.values()}
    voted = {row["id"] for row in left.rows["review"]}

    def claim(holds, text):
        if not holds:
            out.append(text)

    for decision in seen.answered:
        claim(decision in decided, f"answer of {decision} left without a row")
    for decision in seen.begun:
        claim(decision in begun, f"draft of {decision} left without a row")
    for kind, counts in (("decision", decided), ("release", released), ("tool_intent", intents)):
        for name, n in counts.items():
            claim(n == 1, f"{n} rows of kind {kind} for {name}")
    for ticket, decision in seen.tickets.items():
        claim(left.tickets.get(ticket, {}).get("decision") == decision, f"ticket {ticket} is lost")
        claim(decision in decided, f"ticket {ticket} of a decision without a row")
    for ticket in seen.rejected:
        claim(ticket not in seen.tickets, f"the ticket {ticket} of a decision that was told could not be approved")
    for ticket in seen.approved:
        claim(left.tickets[ticket]["state"] == "approved", f"the approval of {ticket} is lost")
        claim(ticket in voted, f"the approval of {ticket} has no row")
    for decision in seen.released:
        claim(decision in released, f"{decision} was given out after a review without a row")
    for decision in released:
        claim(decision in decided, f"{decision} is released, and has no decision row")
        claim(state_of.get(decision) == "approved", f"{decision} is released, its ticket is {state_of.get(decision)}")
    known = {row["id"] for row in left.rows["tool_outcome"] if row["state"] != "unknown"}
    unknown = {case for key, case in case_of.items() if key not in known}
    for decision, state in state_of.items():
        if state == "approved":
            claim((decision in released) != (decision in unknown), f"{decision} is approved and " + (
                "released, though nobody knows about its write" if decision in released else "not released"))
    for decision in seen.unknown:
        claim(decision in unknown, f"{decision} waits for the end of a write that is known")
    for key, n in left.effects.items():
        claim(n == 1, f"the write {key} happened {n} times")
        claim(key in intents, f"the write {key} has no row")
        claim(state_of.get(case_of.get(key)) == "approved", f"the write {key} has no approved ticket")
    per_case = collections.Counter(case_of[key] for key in left.effects if key in case_of)
    for case, n in per_case.items():
        claim(n == 1, f"the case {case} was paid {n} times")
    for row in left.rows["tool_outcome"]:
        n = left.effects.get(row["id"], 0)
        claim(n == 1 if row["state"] == "done" else n == 0 if row["state"] in ("not_sent", "refused") else n <= 1,
              f"the log says {row['state']} of the write {row['id']}, and it happened {n} times")
    return out


class Load:
    """Callers and a reviewer, each a thread, until the server is gone."""

    def __init__(self, test, server, seen):
        self.test, self.server, self.seen = test, server, seen
        self.over = threading.Event()
        work = [self.ask_hours, self.ask_hours, self.ask_held, self.ask_draft, self.ask_money, self.ask_money,
                self.review, self.poll]
        self.threads = [threading.Thread(target=self.run, args=(one,)) for one in work]
        for thread in self.threads:
            thread.start()

    def run(self, work):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
            while not self.over.is_set():
                work(connection)
        except (OSError, ValueError, http.client.HTTPException):
            pass
        finally:
            connection.close()

    def call(self, connection, method, path, body=None, key=None):
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"Content-Type": "application/json", "Authorization": "Bearer " + (key or self.test.anna)})
        response = connection.getresponse()
        answer = json.loads(response.read())
        return response.status, answer, response.headers["x-surety-decision-id"]

    def ask(self, connection, question, **metadata):
        return self.call(connection, "POST", "/v1/chat/completions", request(question, metadata))

    def expect(self, connection, question, text):
        status, answer, decision = self.ask(connection, question)
        if status == 200 and answer["choices"][0]["message"]["content"].strip() == text:
            self.seen.answered.add(decision)
        elif status not in (429, 503):
            self.test.strange.append((question, status, answer))

    def ask_hours(self, connection):
        self.expect(connection, "What are your opening hours?", "We open at nine.")

    def ask_held(self, connection):
        self.expect(connection, "Say something that is kept back.", MODEL_TEXT)

    def ask_draft(self, connection):
        connection.request("POST", "/v1/chat/completions",
                           json.dumps({**request("Write a draft.", {}), "stream": True}),
                           {"Content-Type": "application/json", "Authorization": "Bearer " + self.test.anna})
        response = connection.getresponse()
        decision = response.headers["x-surety-decision-id"]
        for line in response:
            if b'"content":"' in line:
                self.seen.begun.add(decision)
            if line.startswith(b"data: [DONE]"):
                self.seen.answered.add(decision)

    def ask_money(self, connection):
        status, answer, decision = self.ask(connection, "I want a refund.", order=str(1 + time.monotonic_ns() % 3))
        if status == 409:
            self.seen.tickets[answer["error"]["governance"]["review_ticket"]] = decision
        elif status not in (429, 503):
            self.test.strange.append(("refund", status, answer))
        time.sleep(0.01)

    def review(self, connection):
        status, answer, _ = self.call(connection, "POST", "/v1/review/lease", {"queue": "desk"}, self.test.boss)
        if status != 200:
            time.sleep(0.01)
            return
        ticket = answer.get("ticket", answer)
        vote = {"version": ticket["version"], "reason_code": "ok", "reason": "fine"}
        path = f"/v1/review/tickets/{ticket['id']}/approve"
        if self.call(connection, "POST", path, vote, self.test.boss)[0] == 200:
            self.seen.approved.add(ticket["id"])
        elif time.time() - ticket["created_at"] > 2:  # of a request that was cut off before its row
            path = path.replace("/approve", "/reject")
            if self.call(connection, "POST", path, vote, self.test.boss)[0] == 200:
                self.seen.rejected.add(ticket["id"])

    def poll(self, connection):
        for ticket, decision in list(self.seen.tickets.items()):
            if self.over.is_set():
                return
            if ticket in self.seen.approved and decision not in self.seen.released:
                state = self.call(connection, "GET", "/v1/decisions/" + decision)[1]
                if state.get("state") == "released":
                    self.seen.released[decision] = state["answer"]
        time.sleep(0.01)

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


def request(question, metadata):
    return {"messages": [{"role": "user", "content": question}], "temperature": 0,
            "metadata": {"product": "checking", "language": "en", **metadata}}


class KillTest(EndToEnd):
    def setUp(self):
        super().setUp()
        self.outside = Outside()
        self.addCleanup(self.outside.server_close)
        self.addCleanup(self.outside.shutdown)
        port = self.outside.server_address[1]
        self.policy = self.write("policy.yaml", POLICY.replace("PORT", str(port)))
        self.log = self.path("state/audit.log")
        self.keys = self.path("keys.jsonl")
        self.anna = self.key("anna", "cases")
        self.boss = self.key("sven", "supervise")
        self.strange = []

    def key(self, name, permission):
        return self.ok("keys", "add", "--file", self.keys, "--name", name, "--tenant", "acme", "--region", "US-NY",
                       "--eligibility", "retail", "--permission", permission, "--json").json()["key"]

    def server(self):
        return Server(self, "--policy", self.policy, "--api-keys", self.keys, model=None)

    def kill_in_start(self, after_s):
        """While it reads and repairs what the last one left."""
        process = start("serve", "--port", "0", "--policy", self.policy, "--api-keys", self.keys)
        time.sleep(after_s)
        process.kill()
        process.communicate()

    def left(self):
        with open(self.log, encoding="utf-8") as f:
            rows = [json.loads(line) for line in f]
        database = sqlite3.connect(f"file:{self.path('state/review.db')}?mode=ro", uri=True)
        found = database.execute("SELECT id, decision, state FROM review_tickets").fetchall()
        database.close()
        return Left(rows, {name: {"decision": decision, "state": STATES[state]} for name, decision, state in found},
                    dict(self.outside.effects))

    def settle(self, seen):
        """A last start, undisturbed: whoever was approved asks for the answer."""
        server = self.server()
        load = Load(self, server, seen)
        every = (seen.answered, seen.begun, seen.tickets, seen.approved, self.outside.effects)
        self.eventually(lambda: all(every), "some of everything", 60)
        load.end()
        for decision in self.left_approved():
            state = server.call("GET", "/v1/decisions/" + decision, key=self.anna)[1]
            if state["state"] == "reconcile":  # its write was cut off, so nobody knows, and nothing is released
                self.assertNotIn("answer", state)
                seen.unknown.add(decision)
                continue
            self.assertEqual((state["state"], state["answer"].strip()), ("released", MODEL_TEXT), state)
            seen.released[decision] = state["answer"]
        self.assertEqual(server.stop(), 0)

    def left_approved(self):
        return [one["decision"] for one in self.left().tickets.values() if one["state"] == "approved"]

    def test_nothing_is_lost_or_done_twice_whenever_it_is_killed(self):
        seen, chance, started_s = Seen(), random.Random(SEED), 0.0
        begin = time.monotonic()
        for n in range(KILLS):
            if n % 10 == 9:
                self.kill_in_start(chance.uniform(0.0, 0.1))
                continue
            before = time.monotonic()
            server = self.server()
            started_s += time.monotonic() - before
            load = Load(self, server, seen)
            time.sleep(chance.uniform(0.0, 0.35))
            server.kill()
            load.end()
            if n % 100 == 98:
                self.ok("audit", "verify", self.log)
                print(f"{n + 2} kills, {time.monotonic() - begin:.0f} s", flush=True)
        self.settle(seen)
        self.ok("audit", "verify", self.log)
        left = self.left()
        self.assertEqual(self.strange, [])
        self.assertEqual(violations(seen, left), [])
        self.report(seen, left, time.monotonic() - begin, started_s)
        for what in (seen.answered, seen.begun, seen.tickets, seen.approved, left.effects):
            self.assertGreater(len(what), KILLS // 2 if KILLS >= 100 else 0)
        self.would_be_noticed(seen, left)

    def report(self, seen, left, seconds, started_s):
        done = {row["id"] for row in left.rows["tool_outcome"]}
        open_writes = [row["id"] for row in left.rows["tool_intent"] if row["id"] not in done]
        orphans = {one["decision"] for one in left.tickets.values()} - {row["id"] for row in left.rows["decision"]}
        print(json.dumps({"kills": KILLS, "seed": SEED, "seconds": round(seconds, 1),
                          "start_ms": round(1e3 * started_s / (KILLS - KILLS // 10), 1), "answers": len(seen.answered),
                          "drafts": len(seen.begun), "tickets": len(seen.tickets), "approvals": len(seen.approved),
                          "rejected": len(seen.rejected),
                          "effects": len(left.effects), "writes_cut_off": len(open_writes),
                          "of_them_done": sum(key in left.effects for key in open_writes),
                          "tickets_without_decision": len(orphans),
                          "torn_rows": len(left.rows["cut"]), "rows": sum(map(len, left.rows.values()))}), flush=True)

    def would_be_noticed(self, seen, left):
        """Each claim fails where what it is about is taken away."""
        decision = next(iter(seen.answered))
        ticket = next(one for one in seen.approved if left.tickets[one]["decision"] in seen.released)
        done = {row["id"] for row in left.rows["tool_outcome"] if row["state"] == "done"}
        paid = next(key for key in left.effects if key in done)

        def broken(change):
            rows = [{"kind": kind, "body": body} for kind, bodies in left.rows.items() for body in bodies]
            other = Left(rows, {k: dict(v) for k, v in left.tickets.items()}, dict(left.effects))
            change(other)
            return violations(seen, other)

        def without(kind, name, member="id"):
            def change(other):
                other.rows[kind] = [row for row in other.rows[kind] if row[member] != name]
            return change

        def twice(kind):
            return lambda other: other.rows[kind].append(other.rows[kind][0])

        for change in (without("decision", decision), without("stream_begin", next(iter(seen.begun))),
                       without("decision", seen.tickets.get(ticket) or left.tickets[ticket]["decision"]),
                       without("review", ticket), without("release", left.tickets[ticket]["decision"]),
                       without("tool_intent", paid), twice("decision"), twice("release"), twice("tool_intent"),
                       lambda other: other.effects.update({paid: 2}), lambda other: other.effects.update({"none": 1}),
                       lambda other: other.effects.pop(paid), lambda other: other.tickets.pop(ticket),
                       lambda other: other.tickets[ticket].update(state="open")):
            try:
                noticed = broken(change)
            except KeyError:
                noticed = True  # the ticket is gone
            self.assertTrue(noticed)


if __name__ == "__main__":
    import unittest
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""Acceptance tests of the governed path that need the real engine, the real server and a real kill: prefix KV by
dimension, the meter of tokens and time, a write tool that loses its caller, material of one permission class."""

import http.client
import http.server
import json
import os
import re
import threading
import time

from common import EndToEnd, MODEL, main
from serving import Server

PREFIX = "The history of banking began when merchants lent grain to farmers and traders. " * 10
POLICY = f"""
policy: {{id: acceptance, version: "1", effective_from: 2026-01-01}}
identity:
  tenant: {{from: token.claim, claim: tenant, required: true}}
  permissions: {{from: token.claim, claim: permissions, required: true}}
  region: {{from: token.claim, claim: region}}
  eligibility: {{from: token.claim, claim: eligibility}}
  product: {{from: request.metadata, key: product, values: [checking, savings]}}
  language: {{from: request.metadata, key: language, values: [en, es]}}
  policy_version: {{from: policy}}
  effective_date: {{from: constant, value: 2026-01-01}}
models:
  fast: {{engine: local, weights: {MODEL}, input_cost_per_token: 0.001, output_cost_per_token: 0.01,
         cache_read_input_token_cost: 0.0001}}
retrievers:
  handbook: {{index: handbook.db, top_k: 4, deadline: 10s}}
tools:
  refund: {{kind: write, url: "http://127.0.0.1:PORT/refund", arguments: [customer, amount], deadline: 20s}}
signals:
  intent: {{by: phrases, labels: {{refund: [refund], azure: [azure]}}}}
verifiers:
  promises: {{kind: phrases, phrases: [we guarantee], fail: block}}
routes:
  - name: refund
    when: {{intent: refund}}
    answer: tools
    model: fast
    tools: [refund]
    release: {{audience: customer, review: desk}}
  - name: azure
    when: {{intent: azure}}
    model: fast
    queue: desk
    retrieve: handbook
    system: Repeat the passage.
    verify: [promises]
    max_output_tokens: 40
  - name: plain
    when: always
    model: fast
    queue: desk
    system: {json.dumps(PREFIX)}
    verify: [promises]
    cache: {{mode: exact, ttl: 1h, subject_bound: false}}
    max_output_tokens: 12
cache: {{shadow: 0%}}
review:
  desk: {{approvals: 1, permission: supervise}}
"""


class Till(http.server.BaseHTTPRequestHandler):
    """Pays: each call leaves a line. The server's `kill` is called before or after that, instead of a reply."""
    paid, when, kill = [], "", None

    def do_POST(self):  # noqa: N802
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if Till.when == "before":
            Till.kill()
        Till.paid.append((self.headers["Idempotency-Key"], body["customer"]))
        if Till.when == "after":
            Till.kill()
        answer = b'{"paid": true}'
        try:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
        except OSError:
            pass

    def log_message(self, *args):
        pass


class AcceptanceTest(EndToEnd):
    def setUp(self):
        super().setUp()
        till = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Till)
        Till.paid, Till.when, Till.kill = [], "", None
        threading.Thread(target=till.serve_forever, daemon=True).start()
        self.addCleanup(till.server_close)
        self.addCleanup(till.shutdown)
        os.mkdir(self.path("documents"))
        self.document("sar", "[sar]", "Narrative BLUE-77: Mr Azure moved money through nine accounts.")
        self.document("open", "[public]", "Mr Azure has a checking account.")
        self.ok("documents", "add", "--index", self.path("handbook.db"), self.path("documents"))
        self.policy = POLICY.replace("PORT", str(till.server_port))
        self.file = self.write("policy.yaml", self.policy)
        self.keys = self.path("keys.jsonl")
        self.anna = self.key("anna")
        self.boss = self.key("sven", permission=["supervise"])
        self.second = self.key("tina", permission=["supervise"])
        self.root = self.key("root", role="admin")

    def document(self, name, permissions, text):
        self.write(f"documents/{name}.md", f"---\nid: {name}\nversion: 1\npermissions: {permissions}\n---\n{text}\n")

    def key(self, name, role="user", permission=("cases",), **more):
        scope = {"tenant": "acme", "region": "US-NY", "eligibility": "retail", **more}
        return self.ok("keys", "add", "--file", self.keys, "--name", name, "--role", role,
                       *(part for one in permission for part in ("--permission", one)),
                       *(part for name, value in scope.items() for part in ("--" + name, value)),
                       "--json").json()["key"]

    def server(self):
        return Server(self, "--policy", self.file, "--api-keys", self.keys, "--admin-port", "0", model=None, ctx=2048)

    def ask(self, server, question, key=None, **metadata):
        body = {"messages": [{"role": "user", "content": question}], "temperature": 0,
                "metadata": {"product": "checking", "language": "en", **metadata}}
        status, answer, headers = server.call("POST", "/v1/chat/completions", body, key or self.anna)
        return status, answer, {name.lower(): value for name, value in headers.items()}

    def rows(self, kind):
        with open(self.path("state/audit.log"), encoding="utf-8") as f:
            return [row for row in map(json.loads, f) if row["kind"] == kind]

    def metrics(self, server):
        status, text, _ = server.call("GET", "/metrics", key=self.root, port=server.admin, raw=True)
        self.assertEqual(status, 200)
        self.assertIn("surety_route_total{", text)
        return text

    def sum_of(self, server, name):
        found = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", self.metrics(server), re.MULTILINE)
        self.assertTrue(found, name)
        return sum(map(float, found))

    def reload(self, server, *edits):
        for before, after in edits:
            self.assertEqual(self.policy.count(before), 1, before)
            self.policy = self.policy.replace(before, after)
        self.write("policy.yaml", self.policy)
        self.ok("policy", "--reload", "--url", f"http://127.0.0.1:{server.admin}", "--key", self.root)

    def test_prefix_kv_is_shared_inside_one_partition_and_across_no_dimension(self):
        keys = {"tenant": self.key("anna", tenant="bank"), "region": self.key("anna", region="US-CA"),
                "eligibility": self.key("anna", eligibility="premium"),
                "permissions": self.key("anna", permission=["cases", "sar"])}
        bert = self.key("bert")
        server, n = self.server(), iter(range(1000))

        def cached(key=None, **metadata):
            """Of a question that nobody asked before, so that only its beginning can be known."""
            status, answer, headers = self.ask(server, f"Which number is {next(n)}?", key, **metadata)
            self.assertEqual((status, headers["x-surety-cache"]), (200, "miss"), answer)
            return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

        def differs(what, *args, **metadata):
            self.assertEqual(cached(*args, **metadata), 0, what)
            self.assertGreater(cached(*args, **metadata), 100, what)  # the control: its own prefix is there at once

        differs("the first")
        self.assertGreater(cached(bert), 100)  # another subject of the same partition
        for what, key in keys.items():
            differs(what, key)
        differs("product", product="savings")
        differs("language", language="es")
        self.reload(server, ("value: 2026-01-01", "value: 2026-01-02"))
        differs("effective_date")
        self.reload(server, ('version: "1"', 'version: "2"'))
        differs("policy_version")
        self.reload(server, ('version: "2"', 'version: "1"'), ("value: 2026-01-02", "value: 2026-01-01"))
        self.assertGreater(cached(), 100)  # and back in the first partition its prefix is still its own

    def test_what_is_charged_is_what_the_engine_metered(self):
        server = self.server()
        names = ("prompt_tokens", "prompt_tokens_cached", "generation_tokens")
        told, started = 0.0, time.monotonic()
        for i in range(12):
            status, answer, headers = self.ask(server, f"Which number is {i % 9}?")
            self.assertEqual(status, 200, answer)
            told += float(headers["x-surety-cost"])
            self.assertEqual(answer["usage"]["total_tokens"],
                             answer["usage"]["prompt_tokens"] + answer["usage"]["completion_tokens"])
        wall = time.monotonic() - started
        prompt, cached, made = (self.sum_of(server, f"surety_{name}_total") for name in names)
        self.assertGreater(cached, 100)
        metered = (prompt - cached) * 0.001 + cached * 0.0001 + made * 0.01
        rows = [row["body"] for row in self.rows("decision")]
        self.assertGreater(sum(row["cache"] == "hit" for row in rows), 0)
        for key, total in (("prompt_tokens", prompt), ("cached_tokens", cached), ("output_tokens", made)):
            self.assertEqual(sum(row["usage"][key] for row in rows), total, key)
        logged = sum(row["cost"]["total"] for row in rows)
        status, report, _ = server.call("GET", "/admin/slo", key=self.root, port=server.admin)
        self.assertEqual(status, 200, report)
        for said in (logged, told, report["cost_identity"]["total"], report["cost_identity"]["sum_of_parts"],
                     self.sum_of(server, "surety_task_cost_total")):
            self.assertLess(abs(said / metered - 1), 0.02)
        # Time: of requests one after the other the parts that the rows hold are the engine's own, and no more than all.
        busy = self.sum_of(server, "surety_request_prefill_time_seconds_sum") + \
            self.sum_of(server, "surety_request_decode_time_seconds_sum")
        of_rows = sum(row["times_ns"]["prefill"] + row["times_ns"]["decode"] for row in rows) / 1e9
        self.assertLess(abs(of_rows / busy - 1), 0.02)
        self.assertLessEqual(of_rows, wall)
        self.assertGreater(of_rows, 0)

    def test_a_kill_between_approval_and_write_or_call_and_reply_leaves_one_effect(self):
        paid_before = 0
        for i, when in enumerate(("", "before", "after")):
            server = self.server()
            customer = f"c{i}"
            status, answer, headers = self.ask(server, "I want a refund", customer=customer, amount="25")
            self.assertEqual((status, answer["error"]["code"]), (409, "review_pending"), answer)
            ticket = answer["error"]["governance"]["review_ticket"]
            path = "/v1/review/tickets/" + ticket
            version = server.call("GET", path, key=self.boss)[1]["version"]
            for action, key, more in (("lease", self.boss, {}), ("edit", self.boss, {"text": "You get it."}),
                                      ("release", self.boss, {}), ("lease", self.second, {})):
                status, leased, _ = server.call("POST", f"{path}/{action}", {"version": version, **more}, key)
                self.assertEqual(status, 200, leased)
                version = leased["version"]
            Till.when, Till.kill = when, server.process.kill
            vote = {"version": leased["version"], "reason_code": "ok", "reason": "fine"}
            try:
                status = server.call("POST", path + "/approve", vote, self.second)[0]
            except (OSError, http.client.HTTPException):
                status = 0
            self.assertEqual(status, 0 if when else 200)
            self.assertEqual(server.stop() if not when else server.process.wait(), 0 if not when else -9)
            self.eventually(lambda: len(Till.paid) > paid_before, "the payment")
            paid_before = len(Till.paid)
            Till.when = ""
            server = self.server()  # comes back: what it cannot know it does not do again
            state = server.call("GET", "/v1/decisions/" + headers["x-surety-decision-id"], key=self.anna)[1]
            if when:  # nobody knows, so the text that tells of it waits, until somebody has looked
                self.assertEqual(state["state"], "reconcile")
                self.assertNotIn("answer", state)
                status, open_writes, _ = server.call("GET", "/admin/writes", key=self.root, port=server.admin)
                self.assertEqual((status, [one["writes"][0]["state"] for one in open_writes["data"]]),
                                 (200, ["unknown"]))
                decision = headers["x-surety-decision-id"]
                settled = server.call("POST", "/admin/writes/settle", {"decision": decision, "state": "done",
                                                                       "reason": "seen in the till"},
                                      self.root, server.admin)
                self.assertEqual((settled[0], settled[1]["state"]), (200, "released"), settled)
                state = server.call("GET", "/v1/decisions/" + decision, key=self.anna)[1]
            self.assertEqual((state["state"], state["answer"]), ("released", "You get it."))
            self.assertEqual(sum(who == customer for _, who in Till.paid), 1, when)
            released = self.rows("release")[-1]["body"]
            self.assertEqual(released["writes"][0]["state"], "done")
            self.assertEqual(server.stop(), 0)
            self.assertEqual(len(self.rows("decision")), i + 1)
            self.assertEqual(len(self.rows("release")), i + 1)
        self.ok("audit", "verify", self.path("state/audit.log"))

    def test_material_of_one_class_is_nowhere_where_another_looks(self):
        server = self.server()
        investigator = self.key("ivan", permission=["cases", "sar"])
        self.assertEqual(server.stop(), 0)  # keys are read at start
        server = self.server()
        question = "What about Mr Azure?"
        self.assertEqual(self.ask(server, question, investigator)[0], 200)
        self.assertEqual(self.ask(server, question)[0], 200)
        rows = [row["body"] for row in self.rows("decision")]
        self.assertIn("sar:1@1", json.dumps(rows[0]["passages"]))  # the control
        self.assertNotIn("sar:1@1", json.dumps(rows[1]))
        self.assertNotEqual(rows[0]["partition"], rows[1]["partition"])
        self.assertEqual(rows[1]["usage"]["cached_tokens"], 0)
        metrics = self.metrics(server)
        self.assertEqual(server.stop(), 0)
        with open(self.path("state/audit.log"), encoding="utf-8") as f:
            log = f.read()
        for text in (metrics, log, "".join(server.log)):
            for word in ("BLUE-77", "nine accounts", "Azure"):
                self.assertNotIn(word, text)


if __name__ == "__main__":
    main()

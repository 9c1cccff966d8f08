#!/usr/bin/env python3
"""The governed path on a real model: the example policy, its keys and documents, as an operator would set them up."""

import http.client
import json
import os
import re
import shutil
import signal

from common import EndToEnd, MODEL, ROOT, surety
from serving import Server

EXAMPLE = os.path.join(ROOT, "policies", "retail-demo")


class GovernanceTest(EndToEnd):
    def setUp(self):
        super().setUp()
        self.policy = self.path("retail-demo")
        shutil.copytree(EXAMPLE, self.policy, ignore=shutil.ignore_patterns("state", "*.db*"))
        self.edit("policy.yaml", lambda text: re.sub(r"weights: \S+", f"weights: {MODEL}", text))
        self.file = os.path.join(self.policy, "policy.yaml")
        self.keys = self.path("keys.jsonl")
        self.ok("documents", "add", "--index", os.path.join(self.policy, "handbook.db"),
                os.path.join(self.policy, "documents"))
        self.anna = self.key("anna", eligibility="retail")
        self.bert = self.key("bert", eligibility="retail")
        self.other = self.key("olga", tenant="bank", eligibility="retail")
        self.boss = self.key("sven", permission="supervise", eligibility="retail")
        self.second = self.key("tina", permission="supervise", eligibility="retail")
        self.root = self.key("root", role="admin")

    def edit(self, name, change):
        path = os.path.join(self.policy, name)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        with open(path, "w", encoding="utf-8") as f:
            f.write(change(text))

    def key(self, name, tenant="acme", permission="cases", region="US-NY", role="user", eligibility=None):
        extra = ["--eligibility", eligibility] if eligibility else []
        return self.ok("keys", "add", "--file", self.keys, "--name", name, "--tenant", tenant, "--permission",
                       permission, "--region", region, "--role", role, *extra, "--json").json()["key"]

    def server(self, *args):
        return Server(self, "--policy", self.file, "--api-keys", self.keys, "--admin-port", "0", *args, model=None,
                      ctx=4096)

    def ask(self, server, question, key=None, **more):
        body = {"messages": [{"role": "user", "content": question}], "temperature": 0,
                "metadata": {"product": "checking", "language": "en"}, **more}
        return server.call("POST", "/v1/chat/completions", body, key or self.anna)

    @staticmethod
    def header(headers, name):
        return {k.lower(): v for k, v in headers.items()}.get(name)

    def stream(self, server, question, key=None):
        """Events of a stream, and its response's headers."""
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        body = {"messages": [{"role": "user", "content": question}], "temperature": 0, "stream": True,
                "metadata": {"product": "checking", "language": "en"}}
        connection.request("POST", "/v1/chat/completions", json.dumps(body),
                           {"Content-Type": "application/json", "Authorization": "Bearer " + (key or self.anna)})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
        return [e if e == "[DONE]" else json.loads(e) for e in events], dict(response.getheaders())

    def rows(self, kind):
        with open(os.path.join(self.policy, "state", "audit.log"), encoding="utf-8") as f:
            rows = [json.loads(line) for line in f if line.endswith("\n")]
        return [row for row in rows if row["kind"] == kind]

    def test_the_policy_holds(self):
        self.ok("check", self.file)

    def test_three_questions_three_ways(self):
        server = self.server()
        status, answer, headers = self.ask(server, "What are your opening hours?")
        self.assertEqual(status, 200, answer)
        self.assertIn("9 am to 5 pm", answer["choices"][0]["message"]["content"])
        self.assertEqual(self.header(headers, "x-surety-release"), "template")
        self.assertEqual(answer["usage"]["completion_tokens"], 0)

        events, headers = self.stream(server, "How much is the overdraft fee? What is the policy on overdrafts?")
        self.assertEqual(self.header(headers, "x-surety-route"), "policy_answer")
        self.assertEqual(self.header(headers, "x-surety-draft"), "true")
        text = "".join(e["choices"][0]["delta"].get("content") or "" for e in events
                       if e != "[DONE]" and e.get("choices"))
        cited = re.findall(r'\[(\w+):\w+@2026-01 "([^"]+)"\]', text)
        self.assertTrue(cited, text)
        for document, quote in cited:  # word for word, whatever the model wanted to say
            with open(os.path.join(self.policy, "documents", document + ".md"), encoding="utf-8") as f:
                self.assertIn(quote, " ".join(f.read().split()))
        passed = events[-1] == "[DONE]"
        self.assertTrue(passed or events[-1]["error"]["code"] == "content_filter", events[-1])

        status, answer, headers = self.ask(server, "I want to dispute a transaction that I did not make.")
        self.assertEqual((status, answer["error"]["code"]), (409, "review_pending"))
        ticket = answer["error"]["governance"]["review_ticket"]
        decision = self.header(headers, "x-surety-decision-id")
        state = server.call("GET", "/v1/decisions/" + decision, key=self.anna)[1]
        self.assertEqual(state["state"], "review_pending")
        self.assertNotIn("answer", state)
        for stranger in (self.bert, self.other):
            self.assertEqual(server.call("GET", "/v1/decisions/" + decision, key=stranger)[0], 404)
        self.review(server, ticket)
        state = server.call("GET", "/v1/decisions/" + decision, key=self.anna)[1]
        self.assertEqual((state["state"], state["answer"]), ("released", "A person looks into it."))
        self.assertEqual(len(self.rows("decision")), 3)
        self.assertEqual(len(self.rows("release")), 1)
        self.assertEqual(server.stop(), 0)
        self.ok("audit", "verify", os.path.join(self.policy, "state", "audit.log"))

    def review(self, server, ticket):
        """By a supervisor: takes it, writes the answer, another one approves. The author can do neither."""
        second = self.second
        self.assertNotEqual(server.call("POST", "/v1/review/lease", {"queue": "supervisor"}, self.anna)[0], 200)
        status, taken, _ = server.call("POST", "/v1/review/lease", {"queue": "supervisor"}, self.boss)
        self.assertEqual((status, taken.get("ticket", taken).get("id")), (200, ticket), taken)
        version = self.ticket(server, ticket)["version"]
        path = "/v1/review/tickets/" + ticket
        text = "A person looks into it."
        status, edited, _ = server.call("POST", path + "/edit", {"version": version, "text": text}, self.boss)
        self.assertEqual(status, 200, edited)
        version = self.ticket(server, ticket)["version"]
        own = {"version": version, "reason_code": "ok", "reason": "edited"}
        self.assertNotEqual(server.call("POST", path + "/approve", own, self.boss)[0], 200)  # own words
        server.call("POST", path + "/release", {"version": version}, self.boss)
        version = self.ticket(server, ticket)["version"]
        status, leased, _ = server.call("POST", path + "/lease", {"version": version}, second)
        self.assertEqual(status, 200, leased)
        vote = {"version": self.ticket(server, ticket)["version"], "reason_code": "ok", "reason": "fine"}
        status, done, _ = server.call("POST", path + "/approve", vote, second)
        self.assertEqual(status, 200, done)

    def test_a_log_that_cannot_be_read_releases_nothing_a_second_time(self):
        server = self.server()
        status, answer, _ = self.ask(server, "I dispute this charge of $20,000.")
        self.assertEqual(status, 409, answer)
        governance = answer["error"]["governance"]
        self.review(server, governance["review_ticket"])
        path = "/v1/decisions/" + governance["decision_id"]
        self.assertEqual(server.call("GET", path, key=self.anna)[1]["state"], "released")
        log = os.path.join(self.policy, "state", "audit.log")
        with open(log, "r+b") as f:   # a bad sector: the release's row is there, and cannot be read
            data = f.read()
            f.seek(data.index(b'"kind":"release"'))
            f.write(b'"kind":"relXase"')
        server.call("GET", path, key=self.anna)
        server.call("GET", path, key=self.anna)
        with open(log, "rb") as f:
            self.assertEqual(f.read().count(b'"kind":"release"'), 0, "released again")
        server.stop()

    def ticket(self, server, ticket):
        status, answer, _ = server.call("GET", "/v1/review/tickets/" + ticket, key=self.boss)
        self.assertEqual(status, 200, answer)
        return answer.get("ticket", answer)

    def test_nobody_gets_what_another_was_answered(self):
        self.edit("policy.yaml", lambda text: text.replace("release: {audience: internal, mode: stream}",
                                                           "release: {audience: internal, mode: held}")
                  .replace("verify: [citations, numbers, promises, pii]\n    cache: {mode: exact, ttl: 1h}",
                           "verify: [promises, pii]\n    cache: {mode: exact, ttl: 1h, subject_bound: false}"))
        server = self.server()
        question = "What is the policy on overdrafts?"
        outcomes = []
        for key in (self.anna, self.anna, self.bert, self.other):
            status, answer, headers = self.ask(server, question, key)
            self.assertEqual(status, 200, answer)
            outcomes.append(self.header(headers, "x-surety-cache"))
        self.assertEqual(outcomes, ["miss", "hit", "hit", "miss"])
        california = self.key("carl", region="US-CA", eligibility="retail")
        self.assertEqual(server.stop(), 0)  # keys are read at start
        server = self.server()
        self.assertEqual(self.header(self.ask(server, question, california)[2], "x-surety-cache"), "miss")

    def test_a_decision_is_replayed_and_a_subject_is_forgotten(self):
        server = self.server()
        events, headers = self.stream(server, "What is the policy on overdrafts?")
        self.assertTrue(events)
        decision = self.header(headers, "x-surety-decision-id")
        admin = f"http://127.0.0.1:{server.admin}"
        replayed = self.ok("replay", decision, "--url", admin, "--key", self.root, "--json").json()
        self.assertTrue(replayed["same"], replayed)
        receipt = self.ok("forget", "--tenant", "acme", "--subject", "anna", "--url", admin, "--key", self.root,
                          "--json").json()
        self.assertEqual(receipt["audit_keys"], 1)
        self.assertGreater(receipt["kv_pages"], 0)
        self.assertNotEqual(surety("replay", decision, "--url", admin, "--key", self.root).code, 0)
        with open(os.path.join(self.policy, "state", "audit.log"), encoding="utf-8") as f:
            self.assertNotIn("overdrafts?", f.read())
        self.assertEqual(server.stop(), 0)
        self.ok("audit", "verify", os.path.join(self.policy, "state", "audit.log"))

    def test_a_policy_is_reloaded_whole_or_not_at_all(self):
        server = self.server()
        admin = f"http://127.0.0.1:{server.admin}"
        before = self.ok("policy", "--url", admin, "--key", self.root, "--json").json()
        self.edit("policy.yaml", lambda text: text.replace('version: "2026.11.1"', 'version: "2026.11.2"')
                  .replace("from 9 am to 5 pm", "from 8 am to 6 pm"))
        self.assertIn("9 am to 5 pm", json.dumps(self.ask(server, "What are your opening hours?")[1]))
        after = self.ok("policy", "--reload", "--url", admin, "--key", self.root, "--json").json()
        self.assertNotEqual(before["digest"], after["digest"])
        status, answer, headers = self.ask(server, "What are your opening hours?")
        self.assertIn("8 am to 6 pm", answer["choices"][0]["message"]["content"])
        self.assertEqual((status, self.header(headers, "x-surety-policy-version")), (200, "2026.11.2"))
        self.edit("policy.yaml", lambda text: text.replace("routes:", "rutes:"))
        self.assertNotEqual(surety("policy", "--reload", "--url", admin, "--key", self.root).code, 0)
        self.assertEqual(self.header(self.ask(server, "What are your opening hours?")[2],
                                     "x-surety-policy-version"), "2026.11.2")

    def test_a_models_drafter_is_the_policys(self):
        line = f"weights: {MODEL}"
        self.edit("policy.yaml", lambda text: text.replace(line, f"{line}\n    draft_model: {MODEL}"))
        server = self.server("--speculate", "always")
        self.assertEqual([model["draft_model"] for model in server.ready["models"] if "draft_model" in model], [MODEL])
        self.stream(server, "How much is the overdraft fee? What is the policy on overdrafts?")
        self.assertGreater(server.metric("surety_spec_decode_num_accepted_tokens_total", self.root, method="model"), 0)
        # Another drafter takes a new start; until then all stays as it is.
        admin = f"http://127.0.0.1:{server.admin}"
        self.edit("policy.yaml", lambda text: text.replace(f"\n    draft_model: {MODEL}", ""))
        refused = surety("policy", "--reload", "--url", admin, "--key", self.root)
        self.assertNotEqual(refused.code, 0)
        self.assertIn("a change takes a new start", refused.err)
        self.assertEqual(self.ask(server, "What are your opening hours?")[0], 200)

    def test_a_hangup_reloads_the_policy_and_says_what_came_of_it(self):
        server = self.server()

        def hang_up(says):
            n_before = len(server.log)
            server.process.send_signal(signal.SIGHUP)
            self.eventually(lambda: any(says in line for line in server.log[n_before:]), f"a line with '{says}'")

        self.edit("policy.yaml", lambda text: text.replace('version: "2026.11.1"', 'version: "2026.11.2"'))
        hang_up("SIGHUP: policy retail-demo 2026.11.2 is in force")
        self.assertEqual(self.header(self.ask(server, "What are your opening hours?")[2],
                                     "x-surety-policy-version"), "2026.11.2")
        self.edit("policy.yaml", lambda text: text.replace("routes:", "rutes:"))
        hang_up("SIGHUP: the policy was not reloaded")
        self.assertEqual(self.header(self.ask(server, "What are your opening hours?")[2],
                                     "x-surety-policy-version"), "2026.11.2")
        self.assertEqual(server.stop(), 0)

    def test_a_held_stream_says_that_it_is_worked_on(self):
        self.edit("policy.yaml", lambda text: text.replace(
            "release: {audience: internal, mode: stream}", "release: {audience: internal, mode: held, progress: 20ms}")
            .replace("mode: held, review: supervisor}", "mode: held, review: supervisor, progress: 20ms}"))
        server = self.server()
        for question, route in (("What is the policy on overdrafts?", "policy_answer"),
                                ("I want to dispute a transaction that I did not make.", "high")):
            events, headers, lines = self.raw_stream(server, question)
            notes = [json.loads(line[2:])["governance"] for line in lines if line.startswith(": ")]
            self.assertTrue(notes, lines)
            self.assertEqual({note["route"] for note in notes}, {route})
            self.assertEqual({note["decision_id"] for note in notes}, {self.header(headers, "x-surety-decision-id")})
            self.assertLessEqual({note["state"] for note in notes}, {"gathering", "generating", "verifying"})
            self.assertEqual({frozenset(note) for note in notes},
                             {frozenset({"decision_id", "route", "state", "slo"})})
            self.assertIn("=", self.header(headers, "x-surety-slo"))
            last_note = max(i for i, line in enumerate(lines) if line.startswith(": "))
            first_data = min(i for i, line in enumerate(lines) if line.startswith("data: "))
            self.assertLess(last_note, first_data)
            if route == "high":  # too late for a status of its own
                self.assertEqual([event["error"]["code"] for event in events], ["review_pending"])
            else:
                self.assertTrue(events[-1] == "[DONE]" or "error" in events[-1], events)

    def raw_stream(self, server, question):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        self.addCleanup(connection.close)
        body = {"messages": [{"role": "user", "content": question}], "temperature": 0, "stream": True,
                "metadata": {"product": "checking", "language": "en"}}
        connection.request("POST", "/v1/chat/completions", json.dumps(body),
                           {"Content-Type": "application/json", "Authorization": "Bearer " + self.anna})
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        lines = response.read().decode().splitlines()
        events = [line[6:] for line in lines if line.startswith("data: ")]
        return [e if e == "[DONE]" else json.loads(e) for e in events], dict(response.getheaders()), lines

    def test_several_prompts_are_refused_before_any_is_answered(self):
        server = self.server()
        body = {"prompt": ["What are your opening hours?", "I want to dispute a transaction."], "max_tokens": 8,
                "metadata": {"product": "checking", "language": "en"}}
        status, answer, _ = server.call("POST", "/v1/completions", body, self.anna)
        self.assertEqual((status, answer["error"]["param"]), (400, "prompt"), answer)
        self.assertEqual(self.rows("decision"), [])
        body["prompt"] = body["prompt"][:1]
        self.assertEqual(server.call("POST", "/v1/completions", body, self.anna)[0], 200)

    def test_over_a_budget_it_says_when_to_come_back(self):
        self.edit("policy.yaml", lambda text: text.replace("rpm_limit: 30,", "rpm_limit: 2,"))
        server = self.server()
        for left in (1, 0):
            status, answer, headers = self.ask(server, "What are your opening hours?")
            self.assertEqual(status, 200, answer)
            self.assertEqual(self.header(headers, "x-ratelimit-limit-requests"), "2")  # the tenant has 600
            self.assertEqual(self.header(headers, "x-ratelimit-remaining-requests"), str(left))
            self.assertRegex(self.header(headers, "x-ratelimit-reset-requests"), r"^(1m0s|\d+(\.\d+)?s)$")
            self.assertEqual(self.header(headers, "x-ratelimit-limit-tokens"), "200000")
        status, answer, headers = self.ask(server, "What are your opening hours?")
        self.assertEqual((status, answer["error"]["code"]), (429, "rate_limit_exceeded"))
        self.assertEqual(self.header(headers, "x-ratelimit-remaining-requests"), "0")
        self.assertLessEqual(int(self.header(headers, "retry-after")), 60)
        self.assertGreater(int(self.header(headers, "retry-after")), 30)
        self.assertEqual(self.ask(server, "What are your opening hours?", self.bert)[0], 200)  # another subject


if __name__ == "__main__":
    import unittest
    unittest.main()

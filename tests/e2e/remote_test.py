#!/usr/bin/env python3
"""The governed path over remote backends: a second surety, and llama-cpp-python's server.

The example policy stays as it is but for its model. llama-cpp-python's server takes long to build, so it is installed
on demand: tools/install_client llama-cpp-server, or SURETY_LLAMA_CPP_PYTHON names a Python that has it.
"""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

from common import EndToEnd, MODEL, ROOT, model_path, surety
from serving import Server

EXAMPLE = os.path.join(ROOT, "policies", "retail-demo")
LLAMA_PYTHON = os.environ.get("SURETY_LLAMA_CPP_PYTHON",
                              os.path.join(ROOT, ".cache", "llama-cpp-server", "bin", "python3"))
KEY = "sk-far-away-0123456789"
HOURS = "What are your opening hours?"
QUESTIONS = [HOURS, "How much is the overdraft fee? What is the policy on overdrafts?",
             "What is the policy on overdrafts?", "Which policy holds for a lost card?",
             "I want to dispute a transaction that I did not make.", "My card has not come yet. When does it arrive?"]
WRITE = {"type": "function", "function": {"name": "note", "parameters": {
    "type": "object", "properties": {"text": {"type": "string", "maxLength": 12}}, "required": ["text"]}}}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Governed(EndToEnd):
    """The example policy in a folder of its own."""
    ctx = 4096

    def setUp(self):
        super().setUp()
        self.policy = self.path("retail-demo")
        shutil.copytree(EXAMPLE, self.policy, ignore=shutil.ignore_patterns("state", "*.db*"))
        self.file = os.path.join(self.policy, "policy.yaml")
        self.keys = self.path("keys.jsonl")
        self.ok("documents", "add", "--index", os.path.join(self.policy, "handbook.db"),
                os.path.join(self.policy, "documents"))
        self.anna = self.key("anna")
        self.boss = self.key("sven", permission="supervise")
        self.root = self.key("root", role="admin")
        self.n_policies = 0

    def key(self, name, role="user", permission="cases"):
        return self.ok("keys", "add", "--file", self.keys, "--name", name, "--tenant", "acme",
                       "--permission", permission,
                       "--region", "US-NY", "--eligibility", "retail", "--role", role, "--json").json()["key"]

    def edit(self, change):
        with open(self.file, encoding="utf-8") as f:
            text = f.read()
        with open(self.file, "w", encoding="utf-8") as f:
            f.write(change(text))

    def model(self, fields):
        """`fields`: of the policy's only model, instead of the local one's."""
        self.edit(lambda text: re.sub(r"    engine: \w+\n(    (weights|model|api_base|api_key|headers): .*\n)*",
                                      "    " + "\n    ".join(fields) + "\n", text, count=1))

    def local(self):
        self.model(["engine: local", f"weights: {MODEL}"])

    def remote(self, port, *more, name=MODEL):
        self.model(["engine: remote", f'api_base: "http://127.0.0.1:{port}/v1"', f"model: {name}", *more])

    def gateway(self, *args, **env):
        return Server(self, "--policy", self.file, "--api-keys", self.keys, "--admin-port", "0", *args, model=None,
                      ctx=self.ctx, env=env)

    def ask(self, server, question, path="/v1/chat/completions", **more):
        body = {"messages": [{"role": "user", "content": question}]} if "chat" in path else {"prompt": question}
        return server.call("POST", path, {**body, "temperature": 0, "metadata": {"product": "checking",
                                                                                "language": "en"}, **more}, self.anna)

    def stream(self, server, question, **more):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        body = {"messages": [{"role": "user", "content": question}], "temperature": 0, "stream": True,
                "stream_options": {"include_usage": True}, **more,
                "metadata": {"product": "checking", "language": "en"}}
        connection.request("POST", "/v1/chat/completions", json.dumps(body),
                           {"Content-Type": "application/json", "Authorization": "Bearer " + self.anna})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
        if not events:
            events = [text]
        return [e if e == "[DONE]" else json.loads(e) for e in events], dict(response.getheaders())

    def rows(self, kind="decision"):
        with open(os.path.join(self.policy, "state", "audit.log"), encoding="utf-8") as f:
            rows = [json.loads(line) for line in f if line.endswith("\n")]
        return [row["body"] for row in rows if row["kind"] == kind]

    def everything_but(self, *secrets):
        """No file of the state, no answer of the administration and no log holds one of the secrets."""
        for folder, _, names in os.walk(self.policy):
            for name in names:
                with open(os.path.join(folder, name), "rb") as f:
                    data = f.read()
                for secret in secrets:
                    self.assertNotIn(secret.encode(), data, name)

    def asked_again(self, server):
        time.sleep(2)  # 30 questions a minute
        return self.ask(server, QUESTIONS[2], max_tokens=5)[0] == 200

    @staticmethod
    def text_of(events):
        return "".join(e["choices"][0]["delta"].get("content") or "" for e in events
                       if e != "[DONE]" and e.get("choices"))

    def held(self):
        """All routes held and without verifiers that a small model cannot satisfy, so that its own words come out."""
        self.edit(lambda text: text.replace("{audience: internal, mode: stream}", "{audience: internal, mode: held}")
                  .replace("verify: [citations, numbers, promises, pii]\n    cache: {mode: exact, ttl: 1h}",
                           "verify: [promises, pii]")
                  .replace("force_citations: true", "force_citations: false"))


class SuretyTest(Governed):
    def other(self, *args, key=False):
        """A second surety; with `key` it asks for one."""
        env = {"SURETY_API_KEY": KEY} if key else {}
        return Server(self, "--admin-port", "0", *args, ctx=self.ctx, env=env)

    def outcomes(self):
        """What each question came to, over whatever model the policy has."""
        server = self.gateway(FAR_KEY=KEY)
        out = []
        for question in QUESTIONS:
            events, headers = self.stream(server, question, seed=1)
            out.append([self.text_of(events), headers.get("x-surety-route"), headers.get("x-surety-release"),
                        "[DONE]" in events])
        for path, question in (("/v1/chat/completions", QUESTIONS[1]), ("/v1/completions", QUESTIONS[2])):
            status, answer, headers = self.ask(server, question, path, seed=1)
            self.assertEqual(status, 200, answer)
            kept = [{k: v for k, v in choice.items() if k != "governance"} for choice in answer["choices"]]
            out.append([status, kept, headers.get("x-surety-route"), headers.get("x-surety-release")])
        self.assertEqual(server.stop(), 0)
        keys = ("route", "outcome", "attempts", "answer_digest", "passages", "action", "verifier", "signals", "usage",
                "n_attempts", "prompt_digest")
        decided = [{**{k: row.get(k) for k in keys},
                    "verdicts": [{k: v[k] for k in ("verifier", "version", "outcome", "reason", "findings")}
                                 for v in row.get("verdicts", [])]} for row in self.rows()]
        shutil.rmtree(os.path.join(self.policy, "state"))
        return out, decided

    def test_the_same_bytes_routes_and_verdicts_as_with_the_model_in_the_process(self):
        self.local()
        local = self.outcomes()
        far = self.other(key=True)
        self.remote(far.port, "api_key: os.environ/FAR_KEY")
        remote = self.outcomes()
        self.assertEqual(len(local[1]), len(QUESTIONS) + 2)
        for row in (*local[1], *remote[1]):  # which tokens were cached depends on what ran before
            row["usage"].pop("cached_tokens", None)
            row["usage"].pop("draft_tokens", None)
            row["usage"].pop("accepted_tokens", None)
        for one, other in zip(local[0], remote[0]):
            self.assertEqual(one, other)
        for one, other in zip(local[1], remote[1]):
            self.assertEqual(one, other)
        self.assertTrue(any("[" in text for text, *_ in local[0][:6]), "no answer was under the grammar of citations")
        self.assertGreater(len({row["route"] for row in local[1]}), 2)
        self.everything_but(KEY)

    def test_prefixes_are_shared_within_a_partition_alone(self):
        far = self.other()
        self.remote(far.port)
        self.held()
        server = self.gateway()
        cached = []
        other = self.key("olga")
        self.assertEqual(server.stop(), 0)
        server = self.gateway()
        mine = self.anna
        for key in (mine, mine, other):
            self.anna = key
            status, answer, _ = self.ask(server, QUESTIONS[2] + " " * len(cached), seed=1)
            self.assertEqual(status, 200, answer)
            cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
        self.assertEqual(cached[0], 0)
        self.assertGreater(cached[1], 64, "the same caller again")
        self.assertEqual(cached[2], 0, "another subject, on a route that is bound to the subject")

    def test_tools_required_by_the_caller_come_back_as_calls(self):
        # pylint: disable=import-outside-toplevel
        import tool_model
        far = Server(self, "--admin-port", "0", model=tool_model.make(self.folder), ctx=self.ctx)
        self.remote(far.port, name=tool_model.NAME)
        self.held()
        server = self.gateway()
        for choice in ("required", {"type": "function", "function": {"name": "note"}}):
            status, answer, _ = self.ask(server, QUESTIONS[2], tools=[WRITE], tool_choice=choice, max_tokens=80)
            self.assertEqual(status, 200, answer)
            call = answer["choices"][0]["message"]["tool_calls"][0]["function"]
            self.assertEqual(call["name"], "note")
            self.assertIsInstance(json.loads(call["arguments"])["text"], str)
            self.assertIn(answer["choices"][0]["finish_reason"], ("tool_calls", "length"))

    def test_ends_for_the_reasons_that_the_remote_gives(self):
        far = self.other()
        self.remote(far.port)
        self.held()
        server = self.gateway()
        status, answer, _ = self.ask(server, QUESTIONS[2], max_tokens=5)
        self.assertEqual((status, answer["choices"][0]["finish_reason"]), (200, "length"), answer)
        self.assertEqual(answer["usage"]["completion_tokens"], 5)
        word = answer["choices"][0]["message"]["content"].split()[1]
        status, answer, _ = self.ask(server, QUESTIONS[2], max_tokens=40, stop=[word])
        self.assertEqual((status, answer["choices"][0]["finish_reason"]), (200, "stop"), answer)
        self.assertNotIn(word, answer["choices"][0]["message"]["content"])

    def test_a_caller_who_leaves_and_a_deadline_stop_the_remote(self):
        far = self.other()
        self.remote(far.port)
        self.held()
        self.edit(lambda text: text.replace("max_output_tokens: 400\n    deadline: 30s",
                                            "max_output_tokens: 1500\n    deadline: 30s")
                  .replace("reserve_output_tokens: 400", "reserve_output_tokens: 1500"))
        server = self.gateway()
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        body = {"messages": [{"role": "user", "content": QUESTIONS[2]}], "temperature": 0, "ignore_eos": True,
                "max_tokens": 1500, "metadata": {"product": "checking", "language": "en"}}
        connection.request("POST", "/v1/chat/completions", json.dumps(body),
                           {"Content-Type": "application/json", "Authorization": "Bearer " + self.anna})
        running = lambda: far.metric("vllm:num_requests_running")  # noqa: E731
        self.eventually(lambda: running() == 1, "it runs there")
        connection.sock.close()
        connection.close()
        self.eventually(lambda: running() == 0, "it has ended there")
        self.assertEqual(server.stop(), 0)
        self.edit(lambda text: text.replace("deadline: 30s", "deadline: 4s"))
        server = self.gateway()
        answers = []
        asking = threading.Thread(target=lambda: answers.append(
            self.ask(server, QUESTIONS[2], ignore_eos=True, max_tokens=1500)))
        started = time.monotonic()
        asking.start()
        self.eventually(lambda: running() == 1, "it runs there")
        far.process.send_signal(signal.SIGSTOP)  # a fast machine would be done in time
        asking.join()
        self.assertLess(time.monotonic() - started, 15)
        status, answer, headers = answers[0]
        self.assertEqual((status, headers["x-surety-route"]), (409, "otherwise"), answer)
        far.process.send_signal(signal.SIGCONT)
        self.eventually(lambda: running() == 0, "it has ended there")
        self.assertIn("timeout", json.dumps(self.rows()[-1]["attempts"]).lower())

    def test_the_remote_dies_in_an_answer_and_comes_back(self):
        port = free_port()
        far = self.other("--port", str(port))
        self.remote(port)
        self.held()
        server = self.gateway()
        self.edit(lambda text: text.replace("output_tokens: 400", "output_tokens: 1500"))
        self.ok("policy", "--reload", "--url", f"http://127.0.0.1:{server.admin}", "--key", self.root)
        self.assertEqual(self.ask(server, QUESTIONS[2], max_tokens=5)[0], 200)
        answers = []
        asking = threading.Thread(target=lambda: answers.append(
            self.ask(server, QUESTIONS[2], ignore_eos=True, max_tokens=1500)))
        asking.start()
        self.eventually(lambda: far.metric("vllm:num_requests_running") == 1, "it runs there")
        far.kill()
        asking.join()
        status, answer, headers = answers[0]
        self.assertEqual((status, headers["x-surety-route"]), (409, "otherwise"), answer)  # a person, and no half of it
        self.assertEqual(self.ask(server, QUESTIONS[2], max_tokens=5)[0], 409)
        self.assertEqual(self.ask(server, HOURS)[0], 200)  # what needs no model goes on
        self.other("--port", str(port))
        self.eventually(lambda: self.asked_again(server), "it answers again", 60)

    def test_a_gateway_that_starts_before_its_remote_waits_for_it(self):
        port = free_port()
        self.remote(port)
        server = self.gateway()
        status, answer, _ = self.ask(server, QUESTIONS[1])  # needs a grammar, and who is there is not known
        self.assertEqual(status, 409, answer)
        self.other("--port", str(port))

        def cites():
            time.sleep(2)  # 30 questions a minute
            events, _ = self.stream(server, QUESTIONS[1])
            return bool(re.search(r'\[\w+:\w+@2026-01 "', self.text_of(events)))
        self.eventually(cites, "it cites", 90)

    def test_keys_headers_and_models_that_the_remote_refuses(self):
        far = self.other(key=True)
        self.held()
        for fields, env in ((["api_key: os.environ/FAR_KEY"], {"FAR_KEY": "sk-wrong-one-987654"}), ([], {})):
            self.remote(far.port, *fields)
            server = self.gateway(**env)
            status, answer, headers = self.ask(server, QUESTIONS[2])
            self.assertEqual((status, headers["x-surety-route"]), (409, "otherwise"), answer)
            state = json.dumps(server.call("GET", "/admin/policy", key=self.root, port=server.admin)[1])
            self.assertIn("does not accept this gateway's key", state)
            self.assertEqual(server.stop(), 0)
            for text in (state, json.dumps(answer), "".join(server.log)):
                self.assertNotIn("sk-wrong-one-987654", text)
        self.everything_but("sk-wrong-one-987654", KEY)
        self.write("retail-demo/far.key", KEY + "\n")
        self.write("retail-demo/bearer", "Bearer " + KEY + "\n")
        for field in ("headers: {Authorization: {file: bearer}}", "api_key: {file: far.key}"):
            self.remote(far.port, field)
            server = self.gateway()
            self.assertEqual(self.ask(server, QUESTIONS[2], max_tokens=5)[0], 200)
            self.assertEqual(server.stop(), 0)
        self.remote(far.port, "api_key: os.environ/NOT_THERE_AT_ALL")
        refused = surety("serve", "--policy", self.file, "--api-keys", self.keys, "--port", "0")
        self.assertNotEqual(refused.code, 0)
        self.assertIn("NOT_THERE_AT_ALL", refused.err)
        self.remote(far.port, "api_key: {file: far.key}", name="no-such-model")
        server = self.gateway()
        self.assertEqual(self.ask(server, QUESTIONS[2])[0], 409)
        self.assertIn("no-such-model", json.dumps(server.call("GET", "/admin/policy", key=self.root,
                                                              port=server.admin)[1]))

    def test_a_reload_takes_a_new_key_and_a_new_limit(self):
        far = self.other(key=True)
        self.held()
        self.write("retail-demo/far.key", "sk-wrong-one-987654\n")
        self.remote(far.port, "api_key: {file: far.key}")
        server = self.gateway()
        self.assertEqual(self.ask(server, QUESTIONS[2], max_tokens=5)[0], 409)
        self.write("retail-demo/far.key", KEY + "\n")
        before = server.call("GET", "/admin/policy", key=self.root, port=server.admin)[1]
        after = self.ok("policy", "--reload", "--url", f"http://127.0.0.1:{server.admin}", "--key", self.root,
                        "--json").json()
        self.assertEqual(before["digest"], after["digest"], "a secret is not part of the digest")
        self.assertEqual(self.ask(server, QUESTIONS[2], max_tokens=5)[0], 200)

    def test_its_decision_is_replayed(self):
        far = self.other()
        self.remote(far.port)
        self.held()
        server = self.gateway()
        status, answer, headers = self.ask(server, QUESTIONS[2], seed=3, max_tokens=40)
        self.assertEqual(status, 200, answer)
        replayed = self.ok("replay", headers["x-surety-decision-id"], "--url", f"http://127.0.0.1:{server.admin}",
                           "--key", self.root, "--json").json()
        self.assertTrue(replayed["same"], replayed)


class LlamaServer:
    """llama-cpp-python's server. `interrupt`: it ends what it generates when another request comes, its default."""

    def __init__(self, owner, port, key=None, ctx=4096, interrupt=True):
        self.port = port
        args = [LLAMA_PYTHON, "-m", "llama_cpp.server", "--model", model_path(), "--model_alias", MODEL, "--n_ctx", ctx,
                "--n_threads", 1, "--n_threads_batch", 1, "--host", "127.0.0.1", "--port", port,
                "--verbose", False, "--interrupt_requests", interrupt]
        if key:
            args += ["--api_key", key]
        self.log = open(owner.path("llama.log"), "ab")  # pylint: disable=consider-using-with
        self.process = subprocess.Popen(list(map(str, args)), stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        owner.addCleanup(self.kill)
        owner.eventually(self.answers, "llama-cpp-python's server", 60)

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1):
                return True
        except OSError:
            return False

    def said(self):
        with open(self.log.name, encoding="utf-8") as f:
            return f.read()

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()


def has_llama_server():
    if not os.path.exists(LLAMA_PYTHON):
        return False
    done = subprocess.run([LLAMA_PYTHON, "-c", "import llama_cpp.server.app"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


@unittest.skipUnless(has_llama_server(), "llama-cpp-python's server is absent; tools/install_client llama-cpp-server "
                                         "installs it, or SURETY_LLAMA_CPP_PYTHON names a Python that has it")
class LlamaCppPythonTest(Governed):
    def setUp(self):
        super().setUp()  # its server takes seconds for a prompt where others want the processor too
        self.edit(lambda text: text.replace("cite_tokens: 3500", "cite_tokens: 500")
                  .replace("timeout: 30s", "timeout: 100s").replace("deadline: 30s", "deadline: 100s")
                  .replace("total_p99: 35s", "total_p99: 105s"))

    def far(self, **more):
        return LlamaServer(self, free_port(), **more)

    def test_the_example_answers_its_questions(self):
        far = self.far(key=KEY)
        self.remote(far.port, "api_key: os.environ/FAR_KEY")
        server = self.gateway(FAR_KEY=KEY)
        status, answer, _ = self.ask(server, HOURS)
        self.assertIn("9 am to 5 pm", answer["choices"][0]["message"]["content"])
        events, headers = self.stream(server, QUESTIONS[1])
        self.assertEqual(headers.get("x-surety-route"), "policy_answer", events)
        text = self.text_of(events)
        cited = re.findall(r'\[(\w+):\w+@2026-01 "([^"]+)"\]', text)
        self.assertTrue(cited, text)
        for document, quote in cited:  # the grammar is kept there too
            with open(os.path.join(self.policy, "documents", document + ".md"), encoding="utf-8") as f:
                self.assertIn(quote, " ".join(f.read().split()))
        usage = self.rows()[-1]["usage"]
        self.assertGreater(usage["prompt_tokens"], 100)
        self.assertGreater(usage["output_tokens"], 10)
        status, answer, _ = self.ask(server, QUESTIONS[4])
        self.assertEqual((status, answer["error"]["code"]), (409, "review_pending"))
        self.everything_but(KEY)

    def test_held_answers_completions_and_their_ends(self):
        far = self.far()
        self.remote(far.port)
        self.held()
        server = self.gateway()
        for path in ("/v1/chat/completions", "/v1/completions"):
            status, answer, _ = self.ask(server, QUESTIONS[2], path, max_tokens=6)
            self.assertEqual((status, answer["choices"][0]["finish_reason"]), (200, "length"), answer)
            self.assertGreater(answer["usage"]["completion_tokens"], 0)
        first = self.ask(server, QUESTIONS[2], max_tokens=20)[1]["choices"][0]["message"]["content"]
        again = self.ask(server, QUESTIONS[2], max_tokens=20)[1]["choices"][0]["message"]["content"]
        self.assertEqual(first, again)
        status, answer, _ = self.ask(server, QUESTIONS[2], max_tokens=20, stop=[first.split()[2]])
        self.assertEqual((status, answer["choices"][0]["finish_reason"]), (200, "stop"))

    def test_what_it_cannot_be_told_is_refused_and_named(self):
        far = self.far()
        self.remote(far.port)
        self.held()
        server = self.gateway()
        boss = self.boss
        for more, says in (({"tools": [WRITE], "tool_choice": "required"}, "tool_use.choice"),
                           ({"repetition_penalty": 1.2}, "repetition_penalty"),
                           ({"typical_p": 0.5}, "typical_p")):
            status, answer, _ = self.ask(server, QUESTIONS[2], **more)  # the policy's fallback is a person
            self.assertEqual(status, 409, (more, answer))
            ticket = server.call("GET", "/v1/review/tickets/" + answer["error"]["governance"]["review_ticket"],
                                 key=boss)[1]
            self.assertIn(says, ticket.get("ticket", ticket)["context"]["problem"])
        status, answer, _ = self.ask(server, QUESTIONS[2], max_tokens=60, tools=[WRITE],
                                     tool_choice={"type": "function", "function": {"name": "note"}})
        self.assertEqual(status, 200, answer)
        call = answer["choices"][0]["message"]["tool_calls"][0]["function"]
        self.assertIsInstance(json.loads(call["arguments"])["text"], str)
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        status, answer, _ = self.ask(server, QUESTIONS[2], max_tokens=60, response_format={
            "type": "json_schema", "json_schema": {"name": "n", "schema": schema}})
        self.assertEqual(status, 200, answer)
        self.assertIsInstance(json.loads(answer["choices"][0]["message"]["content"])["n"], int)

    def test_requests_take_turns_and_none_ends_another(self):
        far = self.far()
        self.remote(far.port)
        self.held()
        server = self.gateway()
        answers = []
        threads = [threading.Thread(target=lambda i=i: answers.append(
            self.ask(server, QUESTIONS[2] + " " * i, max_tokens=40))) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([status for status, *_ in answers], [200] * 3, answers)
        ends = {answer["choices"][0]["finish_reason"] for _, answer, _ in answers}
        self.assertEqual(ends - {"length", "stop"}, set())

    def test_a_caller_who_leaves_stops_it_and_its_death_is_noticed(self):
        far = self.far()
        self.remote(far.port)
        self.held()
        self.edit(lambda text: text.replace("max_output_tokens: 400\n    deadline: 100s",
                                            "max_output_tokens: 1500\n    deadline: 100s")
                  .replace("reserve_output_tokens: 400", "reserve_output_tokens: 1500"))
        server = self.gateway()
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        body = {"messages": [{"role": "user", "content": QUESTIONS[2]}], "temperature": 1.5, "max_tokens": 1500,
                "metadata": {"product": "checking", "language": "en"}}
        connection.request("POST", "/v1/chat/completions", json.dumps(body),
                           {"Content-Type": "application/json", "Authorization": "Bearer " + self.anna})
        time.sleep(1)
        connection.sock.close()
        connection.close()
        self.assertEqual(self.ask(server, QUESTIONS[2], max_tokens=5)[0], 200)
        self.assertIn("Disconnected from client", far.said())
        far.kill()
        self.assertEqual(self.ask(server, QUESTIONS[2], max_tokens=5)[0], 409)
        LlamaServer(self, far.port)
        self.eventually(lambda: self.asked_again(server), "it answers again", 60)

    def test_a_model_that_it_does_not_have_is_not_answered_by_another(self):
        far = self.far()
        self.remote(far.port, name="no-such-model")
        self.held()
        server = self.gateway()
        status, answer, _ = self.ask(server, QUESTIONS[2])
        self.assertEqual(status, 409, answer)
        self.assertIn("no-such-model", json.dumps(server.call("GET", "/admin/policy", key=self.root,
                                                              port=server.admin)[1]))


if __name__ == "__main__":
    from common import main
    main()

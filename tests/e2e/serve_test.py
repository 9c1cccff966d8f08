#!/usr/bin/env python3
"""surety serve on a real model: what a client sees over the socket, under load, across tenants, at the end."""

import hashlib
import signal
import threading
import time

import common
from common import EndToEnd, MODEL, measured
from serving import PROMPT, Server


class ServeTest(EndToEnd):
    def test_health_models_and_a_chat_answer(self):
        server = Server(self)
        self.assertEqual(server.call("GET", "/health/live", raw=True)[0], 200)
        self.assertEqual(server.call("GET", "/health/ready", raw=True)[0], 200)
        status, models, _ = server.call("GET", "/v1/models")
        self.assertEqual((status, [m["id"] for m in models["data"]]), (200, [MODEL]))
        with open(common.model_path(), "rb") as f:
            self.assertEqual(models["data"][0]["meta"]["digest"], hashlib.sha256(f.read()).hexdigest())
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Name a colour."}], "max_tokens": 8}
        status, answer, headers = server.call("POST", "/v1/chat/completions", body)
        self.assertEqual(status, 200, answer)
        self.assertTrue(answer["choices"][0]["message"]["content"])
        self.assertIn("x-request-id", {k.lower() for k in headers})
        self.assertEqual(server.stop(), 0)

    def test_what_it_says_is_documented(self):
        keys = self.path("keys.jsonl")
        made = self.ok("keys", "add", "--file", keys, "--name", "root", "--role", "admin", "--json").json()
        self.documented(made)
        server = Server(self, "--api-keys", keys, "--admin-port", "0")
        self.documented(server.ready)
        for method, path, body in (("GET", "/admin/state", None), ("POST", "/admin/forget", {"tenant": "x"}),
                                   ("POST", "/admin/models/load", {"model": MODEL, "name": "second"}),
                                   ("POST", "/admin/models/unload", {"model": "second"})):
            status, answer, _ = server.call(method, path, body, made["key"], server.admin)
            self.assertEqual(status, 200, answer)
            self.documented(answer, "http_api.md")

    def test_the_same_answer_as_the_command_line(self):
        server = Server(self)
        cold = server.complete(max_tokens=24)
        warm = server.complete(max_tokens=24)
        self.assertEqual(cold["choices"][0]["text"], warm["choices"][0]["text"])
        self.assertGreater(warm["usage"]["prompt_tokens_details"]["cached_tokens"], 100)
        alone = self.ok("run", "-m", MODEL, "-p", PROMPT, "--raw", "-n", "24", "--temperature", "0", "--json", "-c",
                        "1024").json()
        self.assertEqual(alone["text"], cold["choices"][0]["text"])

    def test_sixteen_streams_get_what_each_gets_alone(self):
        server = Server(self)
        prompts = [f"Question {i}: what is {i} plus {i}? Answer:" for i in range(16)]
        alone = [server.complete(p, max_tokens=16, cache_salt=f"alone{i}")["choices"][0]["text"]
                 for i, p in enumerate(prompts)]
        together = [None] * 16

        def ask(i):
            together[i] = server.complete(prompts[i], max_tokens=16)["choices"][0]["text"]
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(together, alone)

    def test_a_client_that_leaves_frees_its_pages(self):
        server = Server(self, "--admin-port", "0")
        connection, response = server.open_stream()
        response.readline()
        self.assertEqual(server.metric("surety_num_requests_running"), 1)
        connection.sock.close() if connection.sock else response.close()
        response.close()
        connection.close()
        self.eventually(lambda: server.metric("surety_request_success_total", finished_reason="abort") == 1)
        state = server.call("GET", "/admin/state", port=server.admin)[1]["models"][0]
        self.assertEqual((state["sequences_running"], state["requests_open"]), (0, 0))

    def test_steps_say_what_was_computed_and_how_long_it_took(self):
        server = Server(self, "--admin-port", "0")
        usage = server.complete()["usage"]
        status, answer, _ = server.call("GET", "/admin/steps?last=4096", port=server.admin)
        self.assertEqual(status, 200, answer)
        self.documented(answer["models"], "http_api.md")
        steps = answer["models"][0]["steps"]
        self.assertEqual([s["step"] for s in steps], list(range(1, len(steps) + 1)))
        # The prompt's rows, and one for each further token but those whose drafts held.
        self.assertEqual(sum(s["prefill_rows"] for s in steps), usage["prompt_tokens"])
        accepted = server.call("GET", "/admin/state", port=server.admin)[1]["models"][0]["accepted_tokens"]
        self.assertEqual(sum(s["decode_rows"] - s["draft_rows"] for s in steps) + accepted,
                         usage["completion_tokens"] - 1)
        self.assertTrue(all(s["compute_seconds"] > 0 for s in steps))
        self.assertGreater(steps[-1]["predicted_seconds"], 0)
        last = server.call("GET", "/admin/steps?last=2", port=server.admin)[1]["models"][0]["steps"]
        self.assertEqual(last, steps[-2:])
        for query, param in (("last=0", "last"), ("last=4097", "last"), ("last=x", "last"), ("first=1", "first")):
            status, answer, _ = server.call("GET", "/admin/steps?" + query, port=server.admin)
            self.assertEqual((status, answer["error"]["param"]), (400, param))

    def test_tenants_share_nothing_and_forget_leaves_nothing(self):
        keys = self.path("keys.jsonl")
        key = {}
        for name, tenant, role in (("a1", "a", "user"), ("a2", "a", "user"), ("b", "b", "user"),
                                   ("root", "ops", "admin")):
            made = self.ok("keys", "add", "--file", keys, "--name", name, "--tenant", tenant, "--role", role)
            key[name] = made.out.strip()
        server = Server(self, "--api-keys", keys, "--admin-port", "0")
        self.assertEqual(server.call("GET", "/v1/models")[0], 401)
        self.assertEqual(server.call("GET", "/v1/models", key="surety-wrong")[0], 401)

        def cached(name, **more):
            return server.complete(key=key[name], **more)["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual(cached("a1"), 0)
        self.assertGreater(cached("a2"), 100)
        self.assertEqual(cached("b"), 0)
        self.assertEqual(cached("a1", cache_salt="x"), 0)
        self.assertGreater(cached("a2", cache_salt="x"), 100)
        self.assertEqual(server.call("POST", "/admin/forget", {"tenant": "a"}, key["a1"], server.admin)[0], 403)
        status, receipt, _ = server.call("POST", "/admin/forget", {"tenant": "a"}, key["root"], server.admin)
        self.assertEqual(status, 200, receipt)
        self.assertGreater(receipt["receipts"][0]["bytes"], 0)
        self.assertEqual(cached("a1"), 0)
        self.assertEqual(cached("a1", cache_salt="x"), 0)
        self.assertGreater(cached("b"), 100)
        for body, param in (({"tenant": "a", "extent": "all"}, "extent"),
                            ({"tenant": "a", "region": "r", "extent": "tenant"}, "extent")):
            status, answer, _ = server.call("POST", "/admin/forget", body, key["root"], server.admin)
            self.assertEqual((status, answer["error"]["param"]), (400, param))
        whole = {"tenant": "a", "extent": "tenant"}
        receipt = server.call("POST", "/admin/forget", whole, key["root"], server.admin)[1]
        self.assertGreater(receipt["receipts"][0]["bytes"], 0)
        self.assertEqual((cached("a1"), cached("a1", cache_salt="x")), (0, 0))
        self.assertGreater(cached("b"), 100)

    @measured
    def test_a_full_queue_refuses_within_50_ms(self):
        server = Server(self, "--parallel", "1", "--queue", "1")
        server.complete("warm up")
        running, response = server.open_stream(prompt=PROMPT, max_tokens=800)
        response.readline()
        # Its answer begins when the first one has ended, so it is not waited for.
        waiting = server.send_stream(prompt="0 " + PROMPT)
        self.eventually(lambda: server.metric("surety_num_requests_waiting") == 1)
        took, refused = [], 0
        for i in range(20):
            begin = time.monotonic()
            status, answer, headers = server.call("POST", "/v1/completions", {"model": MODEL, "prompt": "x"})
            took.append(time.monotonic() - begin)
            self.assertEqual(status, 429, answer)
            self.assertGreaterEqual(int({k.lower(): v for k, v in headers.items()}["retry-after"]), 1)
            refused += 1
        self.assertEqual(refused, 20)
        self.assertLess(sorted(took)[18], 0.05)
        response.close()
        running.close()
        waiting.close()

    def test_the_ledger_of_tokens_balances(self):
        server = Server(self)
        total = 0
        for i in range(6):
            usage = server.complete(PROMPT + str(i % 3))["usage"]
            total += usage["prompt_tokens"]
        cached = server.metric("surety_prompt_tokens_cached_total")
        computed = server.metric("surety_prompt_tokens_computed_total")
        self.assertEqual(server.metric("surety_prompt_tokens_total"), total)
        self.assertEqual(cached + computed, total)
        self.assertEqual(server.metric("vllm:prompt_tokens_total"), total)
        self.assertEqual(server.metric("vllm:generation_tokens_total"), 48)
        self.assertEqual(server.metric("vllm:time_to_first_token_seconds_count"), 6)

    def test_the_end_waits_for_running_answers(self):
        server = Server(self)
        connection, response = server.open_stream(max_tokens=60)
        response.readline()
        server.process.send_signal(signal.SIGTERM)
        text = response.read().decode()
        self.assertIn("[DONE]", text)
        self.assertIn('"finish_reason":"length"', text)
        self.assertEqual(server.process.wait(30), 0)
        connection.close()

    @measured
    def test_a_second_signal_cuts_answers_off(self):
        server = Server(self)
        connection, response = server.open_stream(max_tokens=800, prompt="Once")
        response.readline()
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        begin = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        self.assertEqual(server.process.wait(30), 0)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertNotIn("[DONE]", response.read().decode())
        connection.close()

    def test_models_come_and_go_while_it_runs(self):
        server = Server(self, "--admin-port", "0")
        status, report, _ = server.call("POST", "/admin/models/load", {"model": MODEL, "name": "second"},
                                        port=server.admin)
        self.assertEqual(status, 200, report)
        self.assertEqual(server.complete(model="second")["model"], "second")
        self.assertNotIn("draft_model", server.call("GET", "/v1/models/second")[1]["meta"])
        self.assertEqual(server.call("POST", "/admin/models/load", {"model": MODEL, "name": "second"},
                                     port=server.admin)[0], 409)
        self.assertEqual(server.call("POST", "/admin/models/unload", {"model": "second"}, port=server.admin)[0], 200)
        status, answer, _ = server.call("POST", "/v1/completions", {"model": "second", "prompt": "x"})
        self.assertEqual((status, answer["error"]["code"]), (404, "model_not_found"))
        status, answer, _ = server.call("POST", "/admin/models/load", {"model": "no-such-model"}, port=server.admin)
        self.assertEqual(status, 404, answer)
        # With a model that drafts for it: its own twin, which is right each time.
        load = {"model": MODEL, "name": "third", "draft_model": MODEL}
        status, report, _ = server.call("POST", "/admin/models/load", load, port=server.admin)
        self.assertEqual((status, report.get("draft_model")), (200, MODEL), report)
        self.assertEqual(server.call("GET", "/v1/models/third")[1]["meta"]["draft_model"], MODEL)
        state = server.call("GET", "/admin/state", port=server.admin)[1]["models"]
        self.assertEqual({m["model"]: m.get("draft_model") for m in state}, {MODEL: None, "third": MODEL})
        for wrong, says in (({"draft_model": MODEL, "draft_head": "head"}, "exclude each other"),
                            ({"draft_model": "no-such-model"}, "no-such-model"),
                            ({"draft_head": "/no/head"}, "/no/head")):
            status, answer, _ = server.call("POST", "/admin/models/load", {"model": MODEL, "name": "x", **wrong},
                                            port=server.admin)
            self.assertIn(status, (400, 404, 409), answer)
            self.assertIn(says, answer["error"]["message"])

    def test_wrong_settings_are_refused_with_the_reason(self):
        self.fails(2, "serve", "-m", MODEL, "--parallel", "0", says="--parallel")
        self.fails(2, "serve", "-m", MODEL, "--tls-cert", "x.pem", says="--tls-key")
        self.fails(1, "serve", "-m", "no-such-model", says="no-such-model")
        self.fails(2, "serve", "--policy", "x.yaml", "--draft-model", MODEL, says="draft_model or draft_head of each")
        self.fails(2, "serve", "--policy", "x.yaml", "--draft-head-layers", "outputs", says="--draft-head-layers")
        self.fails(1, "serve", "--policy", "x.yaml", "--draft-head", "none", says="x.yaml")
        self.fails(2, "serve", "--policy", "x.yaml", "--speculate", "model", says="use auto")
        server = Server(self)
        self.fails(1, "serve", "-m", MODEL, "--port", server.port, says="in use")
        self.fails(1, "keys", "add", "--file", "/dev/full", "--name", "x", says="/dev/full")
        self.fails(1, "serve", "-m", MODEL, "--host", "0.0.0.0", "--port", "0", says="key")
        self.fails(1, "serve", "-m", MODEL, "--port", "0", "--disk-cache", "/no/such/folder", "--disk-cache-size", "10",
                   "--host-cache", "10", says="/no/such/folder")


if __name__ == "__main__":
    common.main()

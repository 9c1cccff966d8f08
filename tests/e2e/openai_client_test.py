#!/usr/bin/env python3
"""The official openai client, unmodified, against the server.

SURETY_BASE_URL: a running server ("http://127.0.0.1:8080/v1"), with SURETY_API_KEY where it wants one. Without it the
suite starts `surety serve` on a free port itself. Needs the Python package openai (pip install openai); exits with 77
(skipped) where it, the program or the model is absent. Embeddings are skipped where no model makes them.
"""

import base64
import json
import os
import re
import struct
import subprocess
import sys
import threading
import unittest
import urllib.error
import urllib.request

from common import BINARY, MODEL, ROOT, SKIPPED, model_path, surety

try:
    import openai
    from openai import OpenAI
except ImportError:
    openai = None
    OWN_PYTHON = os.path.join(ROOT, ".cache", "client", "bin", "python3")  # tools/install_client
    if os.path.exists(OWN_PYTHON) and not sys.prefix.startswith(os.path.join(ROOT, ".cache")):
        os.execv(OWN_PYTHON, [OWN_PYTHON, *sys.argv])

START_S = 120
ENCODER = "all-MiniLM-L6-v2"
URL = re.compile(r"https?://[0-9a-zA-Z.\[\]:-]+:\d+")
QUESTION = [{"role": "user", "content": "Name three colours."}]


class Server:
    """A server of our own, or the one that the environment names."""

    def __init__(self):
        self.process = None
        self.base_url = os.environ.get("SURETY_BASE_URL")
        if self.base_url is None:
            command = [BINARY, "serve", "-m", MODEL, "--port", "0", "--speculate", "always"]
            if surety("models", "path", ENCODER).code == 0:
                command += ["--embedding-model", ENCODER]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT, text=True)
            self.base_url = self.wait_for_address() + "/v1"
        self.root = self.base_url.removesuffix("/v1")

    def wait_for_address(self):
        found = []
        ready = threading.Event()

        def read():
            for line in self.process.stdout:  # also keeps the pipe empty for as long as the server runs
                match = URL.search(line)
                if match and not found:
                    found.append(match.group(0))
                    ready.set()
            ready.set()

        threading.Thread(target=read, daemon=True).start()
        if not ready.wait(START_S) or not found:
            self.stop()
            sys.exit("the server named no address")
        return found[0]

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()


SERVER = None


class Client(unittest.TestCase):
    def setUp(self):
        self.client = OpenAI(base_url=SERVER.base_url, api_key=os.environ.get("SURETY_API_KEY", "none"), max_retries=0,
                             timeout=120)
        models = self.client.models.list().data
        self.model = next(m.id for m in models if m.model_extra["capabilities"]["generate"])
        self.embedder = next((m.id for m in models if m.model_extra["capabilities"]["embed"]), None)

    def chat(self, **more):
        return self.client.chat.completions.create(
            **{"model": self.model, "messages": QUESTION, "max_tokens": 24, "temperature": 0, **more})

    def post(self, path, body):
        """Status and JSON of a request that the client would not make."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        key = os.environ.get("SURETY_API_KEY", "none")
        request = urllib.request.Request(SERVER.root + path, data, {"Content-Type": "application/json",
                                                                    "Authorization": f"Bearer {key}"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


class ChatTest(Client):
    def test_answer(self):
        answer = self.chat()
        choice = answer.choices[0]
        self.assertEqual(choice.message.role, "assistant")
        self.assertTrue(choice.message.content)
        self.assertIn(choice.finish_reason, ("stop", "length"))
        self.assertLessEqual(answer.usage.completion_tokens, 24)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertEqual(answer.model, self.model)

    def test_stream_is_the_answer(self):
        whole = self.chat()
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices),
                         whole.choices[0].message.content)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual(len({(c.id, c.created, c.model, c.system_fingerprint) for c in chunks}), 1)
        self.assertEqual([c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason],
                         [whole.choices[0].finish_reason])
        self.assertEqual(chunks[-1].choices, [])
        self.assertEqual(chunks[-1].usage.prompt_tokens, whole.usage.prompt_tokens)
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)

    def test_a_second_time_finds_the_prompt(self):
        text = "The quick brown fox jumps over the lazy dog. " * 12
        messages = [{"role": "user", "content": text}]
        self.chat(messages=messages)
        self.assertGreater(self.chat(messages=messages).usage.prompt_tokens_details.cached_tokens, 0)

    def test_a_prediction_is_told_in_the_usage(self):
        whole = self.chat(max_tokens=24)
        self.assertIsNone(whole.usage.completion_tokens_details.accepted_prediction_tokens)
        text = whole.choices[0].message.content
        again = self.chat(max_tokens=24, prediction={"type": "content", "content": text})
        self.assertEqual(again.choices[0].message.content, text)
        details = again.usage.completion_tokens_details
        self.assertGreater(details.accepted_prediction_tokens, 0)
        self.assertGreaterEqual(details.rejected_prediction_tokens, 0)
        self.assertEqual(again.usage.completion_tokens, whole.usage.completion_tokens)

    def test_several_choices(self):
        answer = self.chat(n=3, temperature=1.0, seed=5)
        self.assertEqual([c.index for c in answer.choices], [0, 1, 2])
        self.assertGreater(len({c.message.content for c in answer.choices}), 1)
        texts = ["", "", ""]
        for chunk in self.chat(n=3, temperature=1.0, seed=5, stream=True):
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ""
        self.assertEqual(texts, [c.message.content for c in answer.choices])

    def test_seed(self):
        first, again, other = (self.chat(temperature=1.0, seed=s).choices[0].message.content for s in (7, 7, 8))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_logprobs(self):
        answer = self.chat(logprobs=True, top_logprobs=3)
        content = answer.choices[0].logprobs.content
        self.assertGreaterEqual(len(content), 1)
        for token in content:
            self.assertLessEqual(token.logprob, 0)
            self.assertEqual(len(token.top_logprobs), 3)
            self.assertAlmostEqual(token.logprob, max(t.logprob for t in token.top_logprobs), places=4)  # greedy
        made = b"".join(bytes(t.bytes) for t in content).decode(errors="replace")
        self.assertIn(answer.choices[0].message.content.strip(), made)

    def test_stop(self):
        text = self.chat().choices[0].message.content
        word = text.split()[2]
        answer = self.chat(stop=[word]).choices[0]
        self.assertEqual(answer.finish_reason, "stop")
        self.assertEqual(answer.message.content, text[:text.index(word)])
        streamed = "".join(c.choices[0].delta.content or "" for c in self.chat(stop=word, stream=True) if c.choices)
        self.assertEqual(streamed, answer.message.content)

    def test_json_schema(self):
        schema = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"],
                  "additionalProperties": False}
        answer = self.chat(response_format={"type": "json_schema", "json_schema": {"name": "c", "schema": schema}})
        self.assertIn(json.loads(answer.choices[0].message.content)["colour"], ("red", "blue"))

    def test_leaving_cancels(self):
        stream = self.chat(stream=True, max_tokens=400, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        self.assertTrue(self.chat(max_tokens=4).choices)  # the server goes on


class CompletionTest(Client):
    def complete(self, **more):
        return self.client.completions.create(
            **{"model": self.model, "prompt": "One, two,", "max_tokens": 8, "temperature": 0, **more})

    def test_stream_is_the_answer(self):
        whole = self.complete().choices[0].text
        self.assertEqual("".join(c.choices[0].text for c in self.complete(stream=True) if c.choices), whole)

    def test_prompts_of_each_form(self):
        both = self.complete(prompt=["One, two,", "A, B,"])
        self.assertEqual(both.choices[0].text, self.complete().choices[0].text)
        self.assertEqual(both.choices[1].text, self.complete(prompt="A, B,").choices[0].text)
        _, tokens = self.post("/tokenize", {"prompt": "One, two,"})
        self.assertEqual(self.complete(prompt=tokens["tokens"]).choices[0].text, both.choices[0].text)

    def test_echo_and_logprobs(self):
        choice = self.complete(echo=True, logprobs=2).choices[0]
        self.assertTrue(choice.text.startswith("One, two,"))
        self.assertIsNone(choice.logprobs.token_logprobs[0])
        self.assertEqual(len(choice.logprobs.tokens), len(choice.logprobs.text_offset))

    def test_best_of(self):
        self.assertEqual(len(self.complete(n=2, best_of=4, temperature=1.0, seed=1).choices), 2)


class ErrorTest(Client):
    def refused(self, kind, param, call):
        with self.assertRaises(kind) as caught:
            call()
        self.assertEqual(caught.exception.param, param)
        return caught.exception

    def test_fields_are_named(self):
        self.refused(openai.BadRequestError, "temperature", lambda: self.chat(temperature=9))
        self.refused(openai.BadRequestError, "temprature", lambda: self.chat(extra_body={"temprature": 1}))
        self.refused(openai.BadRequestError, "messages[0].role", lambda: self.chat(messages=[{"role": "x",
                                                                                            "content": "y"}]))
        self.refused(openai.BadRequestError, "store", lambda: self.chat(store=True))

    def test_unknown_model(self):
        error = self.refused(openai.NotFoundError, "model", lambda: self.chat(model="gpt-none"))
        self.assertEqual(error.code, "model_not_found")

    def test_overlong_prompt(self):
        error = self.refused(openai.BadRequestError, "messages",
                             lambda: self.chat(messages=[{"role": "user", "content": "word " * 20_000}]))
        self.assertEqual(error.code, "context_length_exceeded")

    def test_bodies_that_are_no_json(self):
        body = json.dumps({"model": self.model, "messages": QUESTION}).encode()
        for bad in (b"", b"[", body[:-1], body + b"}", b'{"messages":[{"role":"user","content":"\xff"}]}',
                    b'{"messages":' + b"[" * 60_000, b'{"n":1,"n":1}'):
            status, answer = self.post("/v1/chat/completions", bad)
            self.assertEqual(status, 400, bad[:60])
            self.assertEqual(answer["error"]["type"], "invalid_request_error")


class ResponsesTest(Client):
    def respond(self, **more):
        return self.client.responses.create(
            **{"model": self.model, "input": "Name three colours.", "max_output_tokens": 24, "temperature": 0, **more})

    def test_answer_is_the_chats(self):
        answer = self.respond()
        self.assertEqual(answer.output_text, self.chat().choices[0].message.content)
        self.assertIn(answer.status, ("completed", "incomplete"))
        self.assertGreater(answer.usage.input_tokens, 0)

    def test_stream_is_the_answer(self):
        whole = self.respond()
        events = list(self.respond(stream=True))
        self.assertEqual([e.sequence_number for e in events], list(range(len(events))))
        self.assertEqual("".join(e.delta for e in events if e.type == "response.output_text.delta"), whole.output_text)
        self.assertEqual(events[0].type, "response.created")
        self.assertIn(events[-1].type, ("response.completed", "response.incomplete"))
        self.assertEqual(events[-1].response.output_text, whole.output_text)

    def test_nothing_is_stored(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.respond(previous_response_id="resp_1")
        self.assertEqual(caught.exception.param, "previous_response_id")


class TokensTest(Client):
    def test_there_and_back(self):
        _, tokens = self.post("/tokenize", {"content": "Grüße, 世界"})
        self.assertEqual(self.post("/detokenize", {"tokens": tokens["tokens"]})[1]["content"], "Grüße, 世界")

    def test_a_chat_counts_as_it_is_sent(self):
        _, tokens = self.post("/tokenize", {"messages": QUESTION})
        self.assertEqual(tokens["count"], self.chat(max_tokens=1).usage.prompt_tokens)
        _, text = self.post("/apply-template", {"messages": QUESTION})
        self.assertIn("Name three colours.", text["prompt"])


class EmbeddingsTest(Client):
    def test_both_encodings_agree(self):
        if self.embedder is None:
            self.skipTest("no model makes embeddings")
        plain = self.client.embeddings.create(model=self.embedder, input=["a", "b"], encoding_format="float")
        self.assertEqual([d.index for d in plain.data], [0, 1])
        coded = self.client.embeddings.create(model=self.embedder, input="a", encoding_format="base64")
        values = coded = coded.data[0].embedding
        if isinstance(coded, str):
            raw = base64.b64decode(coded)
            values = struct.unpack(f"<{len(raw) // 4}f", raw)
        for one, other in zip(plain.data[0].embedding, values, strict=True):
            self.assertAlmostEqual(one, other, places=6)


def main():
    global SERVER
    if openai is None:
        print("skipped: the Python package openai is absent (pip install openai)")
        sys.exit(SKIPPED)
    if "SURETY_BASE_URL" not in os.environ:
        if not os.path.exists(BINARY):
            sys.exit(f"{BINARY} is not built")
        if model_path() is None:
            print(f"skipped: {MODEL} is not on this machine (surety models pull {MODEL})")
            sys.exit(SKIPPED)
    SERVER = Server()
    try:
        outcome = unittest.main(verbosity=2, exit=False).result
    finally:
        SERVER.stop()
    sys.exit(0 if outcome.wasSuccessful() else 1)


if __name__ == "__main__":
    main()

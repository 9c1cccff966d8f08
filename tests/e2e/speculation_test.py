#!/usr/bin/env python3
"""Speculation on a real model: no answer, probability or reason changes, whatever is drafted; JSON stays valid.

SURETY_SPECULATION_PROMPTS (40) and SURETY_SPECULATION_JSON (24) say how many requests; by hand 200 and 500.
SURETY_SPECULATION_MODEL names another model, SURETY_SPECULATION_FLAGS further flags of serve, such as a drafter.
"""

import json
import os
import random
import shlex
import threading
import unittest

import common
from common import EndToEnd
from serving import Server

PROMPTS = int(os.environ.get("SURETY_SPECULATION_PROMPTS", 40))
JSON_RUNS = int(os.environ.get("SURETY_SPECULATION_JSON", 24))
MODEL = os.environ.get("SURETY_SPECULATION_MODEL", common.MODEL)
ALWAYS = ("--speculate", "always", *shlex.split(os.environ.get("SURETY_SPECULATION_FLAGS", "")))
STREAMS = 16

NAMES = ("Anna Berg", "Luis Ortega", "Mei Tanaka", "Omar Haddad", "Ruth Klein", "Piotr Nowak", "Ines Silva")
PRODUCTS = ("current account", "savings account", "car loan", "home loan", "credit card")
CITIES = ("Lyon", "Graz", "Porto", "Leeds", "Turin", "Ghent")

SCHEMA = {
    "type": "object", "additionalProperties": False, "required": ["customer", "product", "amount", "approved", "notes"],
    "properties": {
        "customer": {"type": "object", "additionalProperties": False, "required": ["name", "city"],
                     "properties": {"name": {"enum": list(NAMES)}, "city": {"enum": list(CITIES)}}},
        "product": {"enum": list(PRODUCTS)},
        "amount": {"type": "integer", "minimum": 100, "maximum": 90000},
        "approved": {"type": "boolean"},
        "notes": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"enum": ["new", "known", "checked"]}}}}


def form(draw):
    lines = [f"Customer: {draw.choice(NAMES)}\nProduct: {draw.choice(PRODUCTS)}\nCity: {draw.choice(CITIES)}\n"
             "Identity checked: yes\nStatus: approved\n---\n" for _ in range(3)]
    return "".join(lines) + "Customer:"


def letter(draw):
    text = (f"Dear customer,\n\nthank you for your request about the {draw.choice(PRODUCTS)}. We have received all "
            f"documents and will answer within {draw.randint(2, 9)} working days.\n\nYours sincerely,\n"
            f"{draw.choice(NAMES)}\n\n")
    return text * 2 + "Dear customer,\n\nthank you"


def rows(draw):
    made = [json.dumps({"id": i, "name": draw.choice(NAMES), "city": draw.choice(CITIES), "open": draw.random() < 0.5})
            for i in range(4)]
    return "\n".join(made) + '\n{"id": 4,'


def quote(draw):
    text = (f"The {draw.choice(PRODUCTS)} of {draw.choice(NAMES)} in {draw.choice(CITIES)} was opened in "
            f"{draw.randint(1990, 2020)} and has a limit of {draw.randint(1, 90) * 100} euros.")
    return f"Text: {text}\n\nThe text again, word for word: {text[:draw.randint(4, 30)]}"


def free(draw):
    return f"{draw.choice(NAMES)} walked through {draw.choice(CITIES)} and thought about"


KINDS = (form, letter, rows, quote, free)


def request_of(i):
    """The i-th request: of each kind some greedy, some seeded, with transforms of the distribution among them."""
    draw = random.Random(i)
    body = {"model": MODEL, "prompt": KINDS[i % len(KINDS)](draw), "max_tokens": draw.choice((12, 24, 40)),
            "logprobs": i % 3}
    if i % 2:
        body |= {"temperature": draw.choice((0.3, 0.7, 1.0)), "seed": draw.randint(0, 2**31)}
        body |= draw.choice(({}, {"top_p": 0.9}, {"top_k": 20}, {"min_p": 0.05}, {"top_p": 0.8, "n": 2}))
    body |= draw.choice(({}, {}, {"frequency_penalty": 0.3}, {"presence_penalty": 0.4}, {"repetition_penalty": 1.1},
                         {"stop": ["\n\n", "account"]}))
    return body


def valid(text):
    """Whether a text is of the schema, by its words rather than by a library."""
    value = json.loads(text)
    return (set(value) == set(SCHEMA["required"]) and set(value["customer"]) == {"name", "city"}
            and value["customer"]["name"] in NAMES and value["customer"]["city"] in CITIES
            and value["product"] in PRODUCTS and isinstance(value["amount"], int)
            and not isinstance(value["amount"], bool) and 100 <= value["amount"] <= 90000
            and isinstance(value["approved"], bool) and 1 <= len(value["notes"]) <= 3
            and all(note in ("new", "known", "checked") for note in value["notes"]))


def together(n, ask):
    """ask(i) for i < n, in STREAMS threads."""
    answers, at, lock = [None] * n, iter(range(n)), threading.Lock()

    def work():
        while True:
            with lock:
                i = next(at, None)
            if i is None:
                return
            answers[i] = ask(i)
    threads = [threading.Thread(target=work) for _ in range(min(n, STREAMS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def seen(answer):
    """What a caller sees of an answer but for times and ids."""
    return [(c["text"], c["finish_reason"], c.get("logprobs")) for c in answer["choices"]]


class SpeculationTest(EndToEnd):
    def drafts(self, server):
        return [server.metric(f"surety_spec_decode_num_{name}_tokens_total") for name in ("draft", "accepted")]

    def test_no_answer_changes(self):
        server = Server(self, *ALWAYS, model=MODEL)
        requests = [request_of(i) for i in range(PROMPTS)]

        def ask(i, **more):
            return seen(server.complete(**requests[i], **more))
        plain = together(PROMPTS, lambda i: ask(i, speculate=False, cache_salt="plain"))
        self.assertEqual(self.drafts(server), [0, 0])
        self.assertNotIn(None, plain)
        # Prompts unknown; then known, with each answer there to be looked up.
        for time in ("first", "again"):
            before = self.drafts(server)
            drafted = together(PROMPTS, ask)
            for i in range(PROMPTS):
                self.assertEqual(drafted[i], plain[i], (time, i, requests[i]))
            n_drafted, n_accepted = (b - a for a, b in zip(before, self.drafts(server)))
            print(f"{time}: {n_accepted:.0f} of {n_drafted:.0f} drafted tokens held", flush=True)
            self.assertGreater(n_accepted, PROMPTS)
            self.assertGreater(n_drafted, n_accepted)
        for i in range(0, PROMPTS, 7):  # alone
            self.assertEqual(ask(i), plain[i])

    def test_a_server_that_drafts_nothing_says_the_same(self):
        servers = [Server(self, *flags, model=MODEL) for flags in (ALWAYS, ("--speculate", "off"))]
        for i in range(0, min(PROMPTS, 60), 4):
            answers = [seen(server.complete(**request_of(1000 + i))) for server in servers]
            self.assertEqual(answers[0], answers[1])
        self.assertGreater(self.drafts(servers[0])[1], 0)
        self.assertEqual(self.drafts(servers[1]), [0, 0])

    def test_answers_of_a_schema_are_valid_and_the_same(self):
        server = Server(self, *ALWAYS, model=MODEL)
        shape = {"type": "json_schema", "json_schema": {"name": "case", "strict": True, "schema": SCHEMA}}

        def ask(i, **more):
            draw = random.Random(i)
            name, product = draw.choice(NAMES), draw.choice(PRODUCTS)
            body = {"model": MODEL, "response_format": shape, "seed": i, "temperature": (0, 0.7, 1.2)[i % 3],
                    "max_completion_tokens": 200, "logprobs": i % 4 == 0,
                    "messages": [{"role": "user", "content": f"A record as JSON: {name} wants a {product}."}]}
            if i % 2:
                body["prediction"] = {"type": "content", "content": json.dumps(
                    {"customer": {"name": name, "city": "Nowhere"}, "product": product, "amount": 1, "notes": []})}
            status, answer, _ = server.call("POST", "/v1/chat/completions", {**body, **more})
            self.assertEqual(status, 200, answer)
            return answer["choices"][0], answer["usage"]
        answers = together(JSON_RUNS, ask)
        for choice, _ in answers:
            self.assertEqual(choice["finish_reason"], "stop", choice)
            self.assertTrue(valid(choice["message"]["content"]), choice)
        n_drafted, n_accepted = self.drafts(server)
        print(f"{n_accepted:.0f} of {n_drafted:.0f} drafted tokens held", flush=True)
        self.assertGreater(n_accepted, JSON_RUNS)
        # Requests with a prediction say how much of what was drafted held.
        details = [usage["completion_tokens_details"] for _, usage in answers[1::2]]
        held = sum(d["accepted_prediction_tokens"] for d in details)
        lost = sum(d["rejected_prediction_tokens"] for d in details)
        self.assertTrue(0 < held <= n_accepted and held + lost <= n_drafted, (held, lost))
        n_plain = min(JSON_RUNS, 48)
        plain = together(n_plain, lambda i: ask(i, speculate=False))
        for i in range(n_plain):
            self.assertEqual(plain[i][0], answers[i][0])
        self.assertEqual(self.drafts(server), [n_drafted, n_accepted])


if __name__ == "__main__":
    unittest.TestCase.maxDiff = None
    common.main()

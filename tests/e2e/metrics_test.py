#!/usr/bin/env python3
"""/metrics as Prometheus reads it, with Prometheus's own parser: form, sums that balance, names of other servers."""

import collections
import http.client
import re
import threading
import time
import unittest

import common
from common import MODEL
from serving import PROMPT, Server, need

need("client", "tools/install_client", "prometheus_client")

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families as parse_text  # noqa: E402

ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5"  # as Prometheus asks
COMMENT = re.compile(r"# (HELP|TYPE) (\S+) (.+)")


class Scrape:
    def __init__(self, server):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        try:
            connection.request("GET", "/metrics", headers={"Accept": ACCEPT})
            response = connection.getresponse()
            self.text = response.read().decode()
            self.status, self.content_type = response.status, response.getheader("Content-Type")
        finally:
            connection.close()
        parse = parse_openmetrics if self.content_type.startswith("application/openmetrics-text") else parse_text
        self.families = list(parse(self.text))
        self.samples = [s for family in self.families for s in family.samples]
        self.values = {(s.name, tuple(sorted(s.labels.items()))): s.value for s in self.samples}

    def sum(self, name, **labels):
        found = [s.value for s in self.samples if s.name == name and labels.items() <= s.labels.items()]
        if not found:
            raise AssertionError(f"no series {name} {labels}")
        return sum(found)

    def monotone(self):
        """What may only grow: counters, and the buckets, sums and counts of histograms."""
        return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in self.families
                if family.type in ("counter", "histogram") for s in family.samples}


class MetricsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(cls, "--parallel", "4", "--speculate", "always")

    def ask(self, i, **more):
        body = {"model": MODEL, "messages": [{"role": "user", "content": f"{PROMPT} {i}"}], "temperature": 0,
                "max_tokens": 4 + i, **more}
        status, answer, _ = self.server.call("POST", "/v1/chat/completions", body)
        self.assertEqual(status, 200, answer)
        return answer

    def test_every_family_has_help_and_a_type(self):
        scrape = Scrape(self.server)
        self.assertEqual(scrape.status, 200)
        self.assertEqual(scrape.content_type, "text/plain; version=0.0.4; charset=utf-8")
        said = collections.defaultdict(list)
        for line in scrape.text.splitlines():
            if line.startswith("#"):
                kind, name, _ = COMMENT.fullmatch(line).groups()
                said[kind].append(name)
        self.assertEqual(said["HELP"], said["TYPE"])
        self.assertEqual(len(set(said["TYPE"])), len(said["TYPE"]))
        self.assertEqual(len(scrape.families), len(said["TYPE"]))
        for family in scrape.families:
            self.assertIn(family.type, ("counter", "gauge", "histogram"), family.name)
            self.assertTrue(family.documentation, family.name)
            self.assertTrue(family.samples, family.name)
        self.assertEqual(len(scrape.values), len(scrape.samples), "a series stands twice")

    def test_histograms_add_up(self):
        self.ask(0)
        scrape = Scrape(self.server)
        n_observed = 0
        for family in scrape.families:
            if family.type != "histogram":
                continue
            buckets = collections.defaultdict(list)
            for sample in family.samples:
                labels = {k: v for k, v in sample.labels.items() if k != "le"}
                if sample.name == family.name + "_bucket":
                    buckets[tuple(sorted(labels.items()))].append((float(sample.labels["le"]), sample.value))
            for labels, series in buckets.items():
                self.assertEqual(series, sorted(series), family.name)  # bounds ascend, and so do the counts
                self.assertEqual([n for _, n in series], sorted(n for _, n in series), family.name)
                count, total = (scrape.values[(family.name + end, labels)] for end in ("_count", "_sum"))
                self.assertEqual(series[-1], (float("inf"), count), family.name)
                self.assertGreaterEqual(total, 0)
                n_observed += count
            self.assertEqual(len(family.samples), sum(len(s) + 2 for s in buckets.values()), family.name)
        self.assertGreater(n_observed, 0)

    def test_counters_only_grow_and_none_goes_away(self):
        before = Scrape(self.server).monotone()
        for i in range(4):
            self.ask(i)
            self.server.call("POST", "/v1/chat/completions", {"model": MODEL})  # a 400
            after = Scrape(self.server).monotone()
            self.assertLessEqual(before.keys(), after.keys())
            self.assertEqual([key for key in before if after[key] < before[key]], [])
            self.assertNotEqual(before, after)
            before = after

    def test_names_of_vllm_have_the_same_values(self):
        self.ask(1)
        scrape = Scrape(self.server)
        types = {family.name: family.type for family in scrape.families}
        aliases = [family for family in scrape.families if family.name.startswith("vllm:")]
        self.assertGreater(len(aliases), 10)
        for family in aliases:
            own = "surety_" + family.name.removeprefix("vllm:")
            self.assertEqual(types.get(own), family.type, own)
            for sample in family.samples:
                labels = dict(sample.labels)
                self.assertEqual(labels.pop("engine"), "0")
                labels["model"] = labels.pop("model_name")
                name = "surety_" + sample.name.removeprefix("vllm:")
                if name.startswith("surety_spec_decode_"):  # ours are by method
                    self.assertEqual(scrape.sum(name, **labels), sample.value, name)
                else:
                    self.assertEqual(scrape.values[(name, tuple(sorted(labels.items())))], sample.value, name)

    def test_usage_and_counters_agree(self):
        before = Scrape(self.server)
        answers = [self.ask(i, n=1 + i % 2, max_tokens=6) for i in range(4)] + [self.ask(0)]
        after = Scrape(self.server)

        def grown(name, **labels):
            return after.sum(name, **labels) - before.sum(name, **labels)
        usages = [a["usage"] for a in answers]
        prompt, made, cached = (sum(values) for values in zip(*(
            (u["prompt_tokens"], u["completion_tokens"], u["prompt_tokens_details"]["cached_tokens"]) for u in usages)))
        self.assertEqual(grown("surety_prompt_tokens_total"), prompt)
        self.assertEqual(grown("surety_prompt_tokens_cached_total"), cached)
        self.assertEqual(grown("surety_prompt_tokens_computed_total"), prompt - cached)
        self.assertEqual(grown("surety_generation_tokens_total"), made)
        ends = collections.Counter(c["finish_reason"] for a in answers for c in a["choices"])
        for reason, n in ends.items():
            self.assertEqual(grown("surety_request_success_total", finished_reason=reason), n)
        self.assertEqual(grown("surety_time_to_first_token_seconds_count"), len(answers))
        labels = {"route": "/v1/chat/completions", "status": "2xx"}
        end = time.monotonic() + 10  # counted when the answer has been sent, so perhaps after the client has it
        while grown("surety_http_requests_total", **labels) < len(answers) and time.monotonic() < end:
            after = Scrape(self.server)
        self.assertEqual(grown("surety_http_requests_total", **labels), len(answers))

    def test_drafts_are_counted_as_usage_and_timings_say(self):
        more = {"max_tokens": 40, "ignore_eos": True, "timings": True}
        text = self.ask(2, **more)["choices"][0]["message"]["content"]
        before = Scrape(self.server)
        self.assertNotIn("draft_n", self.ask(2, speculate=False, **more)["timings"])
        after = Scrape(self.server)
        for name in ("vllm:spec_decode_num_drafts_total", "surety_spec_decode_num_drafts_total"):
            self.assertEqual(after.sum(name), before.sum(name))
        answer = self.ask(2, prediction={"type": "content", "content": text}, **more)
        self.assertEqual(answer["choices"][0]["message"]["content"], text)
        details, timings = answer["usage"]["completion_tokens_details"], answer["timings"]
        accepted, rejected = details["accepted_prediction_tokens"], details["rejected_prediction_tokens"]
        self.assertGreater(accepted, 0)
        self.assertEqual((timings["draft_n"], timings["draft_n_accepted"]), (accepted + rejected, accepted))
        before, after = after, Scrape(self.server)

        def grown(name, **labels):
            return after.sum(name, **labels) - before.sum(name, **labels)
        for name, n in (("num_draft_tokens", accepted + rejected), ("num_accepted_tokens", accepted)):
            for of in (name, name + "_per_pos"):
                self.assertEqual(grown(f"surety_spec_decode_{of}_total"), n, of)
                self.assertEqual(grown(f"surety_spec_decode_{of}_total", method="lookup"), n, of)
        self.assertEqual(grown("vllm:spec_decode_num_draft_tokens_total"), accepted + rejected)
        self.assertEqual(grown("vllm:spec_decode_num_accepted_tokens_total"), accepted)
        at = [grown("vllm:spec_decode_num_accepted_tokens_per_pos_total", position=str(i)) for i in range(16)]
        self.assertEqual(sum(at), accepted)
        self.assertEqual(at, sorted(at, reverse=True))  # a token holds where those before it do
        self.assertGreaterEqual(grown("vllm:spec_decode_num_drafts_total"), at[0])
        self.assertEqual(grown("surety_spec_decode_passes_total"), grown("surety_generation_tokens_total") - accepted)

    def test_prompt_tokens_balance_at_any_moment(self):
        threads = [threading.Thread(target=self.ask, args=(i,), kwargs={"max_tokens": 40, "cache_salt": f"moment{i}"})
                   for i in range(8)]
        for thread in threads:
            thread.start()
        n_scrapes = 0
        while any(thread.is_alive() for thread in threads):
            scrape = Scrape(self.server)
            self.assertEqual(scrape.sum("surety_prompt_tokens_total"),
                             scrape.sum("surety_prompt_tokens_cached_total") +
                             scrape.sum("surety_prompt_tokens_computed_total"))
            self.assertLessEqual(scrape.sum("surety_num_requests_running"), 4)
            n_scrapes += 1
        for thread in threads:
            thread.join()
        self.assertGreater(n_scrapes, 3)
        idle = Scrape(self.server)
        self.assertEqual((idle.sum("surety_num_requests_running"), idle.sum("surety_num_requests_waiting")), (0, 0))

    def test_refusals_are_counted_by_reason(self):
        before = Scrape(self.server)
        status, answer, _ = self.server.call("POST", "/v1/completions", {"model": MODEL, "prompt": "word " * 5000})
        self.assertEqual((status, answer["error"]["code"]), (400, "context_length_exceeded"))
        after = Scrape(self.server)
        for name in ("surety_requests_refused_total", "vllm:requests_refused_total"):
            self.assertEqual(after.sum(name, reason="invalid") - before.sum(name, reason="invalid"), 1)
            self.assertEqual(after.sum(name, reason="overload"), before.sum(name, reason="overload"))


if __name__ == "__main__":
    common.main()

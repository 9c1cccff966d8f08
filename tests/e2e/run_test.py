#!/usr/bin/env python3
"""surety run: streaming, sampling, limits, determinism."""

import os

import common
from common import MODEL, EndToEnd, surety


class RunTest(EndToEnd):
    def run_json(self, *args, prompt="Name three colours.", **kwargs):
        return self.ok("run", "-m", MODEL, "-p", prompt, "--json", *args, **kwargs).json()

    def test_streams_an_answer_and_its_timing(self):
        process = common.start("run", "-m", MODEL, "-p", "Tell me about the sea.", "-n", "48")
        pieces = []
        while piece := process.stdout.read1(65536):
            pieces.append(piece)
        err = process.stderr.read().decode()
        self.assertEqual(process.wait(), 0, err)
        self.assertGreater(len(pieces), 3, "the answer came at once, not as a stream")
        self.assertGreater(len(b"".join(pieces).decode("utf-8").strip()), 20)
        for word in ("prefill", "decode", "tok/s", "first token", "peak memory", "load"):
            self.assertIn(word, err)
        process.stdout.close()
        process.stderr.close()

    def test_quiet_prints_no_timing(self):
        self.assertEqual(self.ok("run", "-m", MODEL, "-p", "Hi", "-n", 4, "-q").err, "")

    def test_prompt_comes_from_standard_input(self):
        outcome = self.ok("run", "-m", MODEL, "-p", "-", "-n", 8, "--json", stdin="Name three colours.\n").json()
        self.assertEqual(outcome["token_ids"], self.run_json("-n", 8)["token_ids"])

    def test_streamed_text_is_the_reported_text(self):
        streamed = self.ok("run", "-m", MODEL, "-p", "Name three colours.", "-n", 16).out
        self.assertEqual(streamed.rstrip("\n"), self.run_json("-n", 16)["text"].rstrip("\n"))

    def test_template_and_raw_give_different_prompts(self):
        self.assertGreater(self.run_json("-n", 1)["prompt_tokens"], self.run_json("-n", 1, "--raw")["prompt_tokens"])

    def test_system_text_enters_the_prompt(self):
        with_system = self.run_json("-n", 1, "--system", "You answer in rhymes, always and without exception.")
        self.assertNotEqual(with_system["prompt_tokens"], self.run_json("-n", 1)["prompt_tokens"])

    def test_same_seed_same_answer_and_other_seeds_differ(self):
        def answer(seed):
            return tuple(self.run_json("-n", 12, "--temperature", 1.2, "--seed", seed)["token_ids"])
        self.assertEqual(answer(3), answer(3))
        self.assertGreater(len({answer(seed) for seed in range(4)}), 1)

    def test_answer_does_not_depend_on_threads_or_chunks(self):
        one = self.run_json("-n", 24, "--threads", 1)["token_ids"]
        self.assertEqual(one, self.run_json("-n", 24, "--threads", 2)["token_ids"])

    def test_drafts_change_the_speed_alone(self):
        repeat = "Repeat this line five times: The quick brown fox jumps over the lazy dog."
        # Whether drafts pay is up to the machine, so here they are all verified.
        drafted = self.run_json("-n", 96, "--ignore-eos", "--speculate", "always", prompt=repeat)
        self.assertEqual(self.run_json("-n", 96, "--ignore-eos", prompt=repeat)["token_ids"], drafted["token_ids"])
        self.assertGreater(drafted["accepted_tokens"], 0)
        self.assertGreaterEqual(drafted["draft_tokens"], drafted["accepted_tokens"])
        for flags in (("--speculate", "off"), ("--draft-max", 0)):
            plain = self.run_json("-n", 96, "--ignore-eos", *flags, prompt=repeat)
            self.assertEqual(plain["token_ids"], drafted["token_ids"])
            self.assertEqual((plain["draft_tokens"], plain["accepted_tokens"]), (0, 0))
        long = self.run_json("-n", 96, "--ignore-eos", "--draft-max", 63, prompt=repeat)
        self.assertEqual(long["token_ids"], drafted["token_ids"])
        words = ("-m", MODEL, "-p", repeat, "-n", 96, "--ignore-eos")
        self.assertRegex(self.ok("run", *words, "--speculate", "always").err, r"drafts \d+/\d+ held")
        self.assertNotIn("drafts", self.ok("run", *words, "--speculate", "off").err)
        self.fails(2, "run", *words, "--speculate", "on", says=("--speculate", "auto"))
        self.fails(2, "run", *words, "--draft-max", 64, says=("--draft-max", "63"))
        self.fails(2, "run", *words, "--draft-branches", 0, says=("--draft-branches", "63"))

    def test_a_draft_model_changes_no_token_whatever_it_is(self):
        tiny = os.path.join(common.TESTDATA, "gguf", "tiny-llama-q8_0.gguf")  # another vocabulary, and nonsense
        words = ("-n", 48, "--temperature", 0.8, "--seed", 3, "--speculate", "always")
        plain = self.run_json(*words[:-1], "off")
        for draft in (tiny, MODEL):  # the model itself: the same vocabulary
            drafted = self.run_json(*words, "--draft-model", draft)
            self.assertEqual(drafted["token_ids"], plain["token_ids"])
            self.assertGreater(drafted["draft_tokens"], 0)
        self.assertGreater(drafted["accepted_tokens"], 0)
        self.fails(1, "run", "-m", MODEL, "-p", "a", "--draft-model", "nowhere", says="nowhere")
        self.fails(2, "run", "-m", MODEL, "-p", "a", "--speculate", "model", says="--draft-model")

    def test_every_instruction_set_of_the_processor_answers(self):
        for isa in self.ok("version", "--json").json()["supported_isa"]:
            answer = self.run_json("-n", 4, "--isa", isa)
            self.assertIn(isa, answer["isa"])
            self.assertEqual(len(answer["token_ids"]), 4)

    def test_memory_is_weights_cache_and_workspace(self):
        report = self.run_json("-c", 1024, "-n", 900, "--ignore-eos")
        stated = report["weight_bytes"] + report["kv_bytes"] + report["workspace_bytes"]
        program = common.peak_memory_of("version")  # the program and its libraries, with no model
        self.assertLess(report["peak_memory_bytes"] - program, 1.1 * stated)

    def test_length_limit_and_end_of_text(self):
        limited = self.run_json("-n", 5)
        self.assertEqual((limited["finish_reason"], limited["output_tokens"]), ("length", 5))
        further = self.run_json("-n", 40, "--ignore-eos", prompt="Say OK.")
        self.assertEqual((further["finish_reason"], further["output_tokens"]), ("length", 40))

    def test_stop_text_ends_the_answer_and_is_not_in_it(self):
        whole = self.run_json("-n", 24)["text"]
        word = whole.split()[2]
        stopped = self.run_json("-n", 24, "--stop", word)
        self.assertEqual((stopped["finish_reason"], stopped["stop_text"]), ("stop", word))
        self.assertEqual(stopped["text"], whole[: whole.index(word)])

    def test_logit_bias_decides(self):
        token = self.run_json("-n", 1)["token_ids"][0] + 1
        biased = self.run_json("-n", 4, "--logit-bias", f"{token}=1000", "--ignore-eos")
        self.assertEqual(set(biased["token_ids"]), {token})

    def test_sampling_flags_are_accepted_together(self):
        self.run_json("-n", 6, "--temperature", 0.9, "--top-k", 40, "--top-p", 0.9, "--min-p", 0.02,
                      "--typical-p", 0.95, "--repetition-penalty", 1.1, "--repetition-window", 64,
                      "--frequency-penalty", 0.1, "--presence-penalty", 0.1, "--min-tokens", 3, "--seed", 1)

    def test_logprobs_are_reported_for_each_token(self):
        answer = self.run_json("-n", 3, "--logprobs", 2)
        self.assertEqual([len(entry["top"]) for entry in answer["logprobs"]], [2, 2, 2])
        self.assertEqual([entry["token_id"] for entry in answer["logprobs"]], answer["token_ids"])

    def test_kv_types_and_page_sizes_work(self):
        plain = self.run_json("-n", 12, "--kv-type", "f32")["token_ids"]
        self.assertEqual(plain, self.run_json("-n", 12, "--kv-type", "f32", "--page-tokens", 64)["token_ids"])
        for kv_type in ("f16", "bf16", "q8_0"):
            self.assertEqual(len(self.run_json("-n", 12, "--kv-type", kv_type, "--ignore-eos")["token_ids"]), 12)

    def test_text_of_all_kinds_goes_in(self):
        for prompt in ("", "日本語で答えて 🙂", "<|im_end|><|im_start|>system", "\u0000x", "a" * 2000):
            if "\u0000" in prompt:
                outcome = surety("run", "-m", MODEL, "-p", "-", "-n", 2, stdin=prompt)
            else:
                outcome = surety("run", "-m", MODEL, "-p", prompt, "-n", 2)
            self.assertEqual(outcome.code, 0, (prompt, outcome.err))


if __name__ == "__main__":
    common.main()

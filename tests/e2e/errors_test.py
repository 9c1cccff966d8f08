#!/usr/bin/env python3
"""Bad command lines and bad files: a message that says what was wrong, the right exit code, never a crash."""

import os
import time

import common
from common import MODEL, EndToEnd, model_path

TINY = os.path.join(common.TESTDATA, "gguf", "tiny-llama-q8_0.gguf")


class UsageTest(EndToEnd):
    def test_unknown_names_get_the_nearest_known_one(self):
        self.fails(2, "rnu", says="did you mean run?")
        self.fails(2, "run", "--temprature", "1", says="did you mean --temperature?")
        self.fails(2, "models", "pul", says="did you mean pull?")
        self.fails(1, "run", "-m", "smollm2-135m-instuct", "-p", "x", says="did you mean smollm2-135m-instruct?")
        self.fails(1, "models", "pull", "gemma-3-270n", says="did you mean gemma-3-270m?")

    def test_values_that_a_flag_cannot_take(self):
        run = ("run", "-m", MODEL, "-p", "x", "-n", "1")
        self.fails(2, *run, "--seed", "x", says=("--seed", "x"))
        self.fails(2, *run, "--seed", "-1", says="--seed")
        for flag, value in (("--temperature", "-1"), ("--temperature", "nan"), ("--top-p", "2"), ("--top-k", "-3"),
                            ("--min-p", "1.5"), ("--typical-p", "0"), ("--repetition-penalty", "0"),
                            ("--kv-type", "f8"), ("--page-tokens", "17"), ("--ctx", "0"), ("--threads", "-2"),
                            ("--isa", "mmx"), ("--logit-bias", "x"), ("--logit-bias", "99999999=1"),
                            ("--max-tokens", "-7"), ("--max-tokens", "0"), ("--ctx", "1"), ("--logprobs", "-1"),
                            ("--logprobs", "99999999"), ("--seed", "18446744073709551616"), ("--logit-bias", "5=inf"),
                            ("--logit-bias", "5=nan"), ("--logit-bias", "5=1e99"), ("--logit-bias", "-5=1"),
                            ("--repetition-window", "-2"), ("--min-tokens", "-1"), ("--top-k", "2147483648"),
                            ("--top-k", "1.5"), ("--presence-penalty", "101"), ("--temperature", "1e999")):
            with self.subTest(flag=flag, value=value):
                self.fails(2, *run, "--json", flag, value, says=(f"{flag}: ", value.split("=")[0]))
        self.ok(*run, "--logit-bias", "5=-inf", "--seed", "18446744073709551615")

    def test_a_number_is_quoted_as_it_was_typed(self):
        run = ("run", "-m", MODEL, "-p", "x", "-n", "1")
        self.assertNotIn(".0", self.fails(2, *run, "--top-k", "-1", says="--top-k: -1 is not").err)
        self.fails(2, *run, "--top-k", "3", "--top-k", "2147483648", says="--top-k: '2147483648'")
        self.fails(2, *run, "--seed", "3", "--seed", "x", says="--seed: 'x'")
        self.fails(2, "bench", "--prompt", "16,x", says="--prompt: 'x'")

    def test_flags_that_do_not_go_together(self):
        run = ("run", "-m", MODEL, "-p", "x", "-n", "4")
        self.fails(2, *run, "--logprobs", "1", says=("--logprobs", "--json"))
        self.fails(2, *run, "--min-tokens", "5", says=("--min-tokens: 5", "--max-tokens"))
        self.fails(2, "inspect", MODEL, "--template", "--json", says="--template")
        self.fails(2, "inspect", MODEL, "--context", "999999999", says=("--context", "8192"))
        self.fails(2, "models", "--json", "list", says="--json: flags come after the whole command, surety models list")
        self.fails(2, "perplexity", "-f", "x", "--max-tokens", "-1", says="--max-tokens: -1")

    def test_missing_arguments(self):
        self.fails(2, "run", "-m", MODEL, says="-p")
        self.fails(2, "perplexity", "-m", MODEL, says="-f")
        self.fails(2, "models", "pull")
        self.fails(2, "models", "rm")
        self.fails(2, "embed")

    def test_help_and_version_succeed(self):
        for args in (("--help",), ("--version",), ("version",), ("run", "--help"), ("models", "pull", "--help")):
            self.assertTrue(self.ok(*args).out)


class BenchTest(EndToEnd):
    def test_what_does_not_fit_memory_is_refused_before_anything_is_measured(self):
        start = time.monotonic()
        refused = self.fails(1, "bench", "-m", MODEL, "--sequences", "1,999999",
                             says=("tg64 x 999999", "GB", "available"))
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual(refused.out, "")

    def test_what_does_not_fit_the_context_is_told_once(self):
        err = self.ok("bench", "-m", MODEL, "--prompt", "0", "--gen", "2", "--depth", "8191,16", "--sequences", "1,2",
                      "-r", "1", "--quick-roofs").err
        self.assertEqual(err.count("do not fit"), 1, err)


class FileTest(EndToEnd):
    def run_fails(self, path, says=(), code=1):
        for command in (("run", "-p", "x", "-n", "1"), ("inspect",)):
            args = (command[0], path) if command[0] == "inspect" else (*command, "-m", path)
            self.fails(code, *args, says=says)

    def test_absent_file_and_folder_without_model(self):
        self.run_fails(self.path("absent.gguf"), "absent.gguf")
        os.mkdir(self.path("folder"))
        self.run_fails(self.path("folder"), "folder")

    def test_files_that_are_no_models(self):
        self.run_fails(self.write("empty.gguf", b""), "empty.gguf")
        self.run_fails(self.write("text.gguf", "not a model\n" * 100), "text.gguf")
        self.run_fails(self.write("x.safetensors", b"\xff" * 64), "config.json")
        self.run_fails("/dev/null", "/dev/null")

    def test_truncated_gguf_at_every_kind_of_place(self):
        with open(TINY, "rb") as f:
            whole = f.read()
        for size in (1, 4, 7, 8, 23, 24, 100, 1000, 5000, len(whole) // 2, len(whole) - 1):
            with self.subTest(size=size):
                self.run_fails(self.write(f"cut{size}.gguf", whole[:size]), f"cut{size}.gguf")

    def test_truncated_real_model(self):
        with open(model_path(), "rb") as f:
            self.run_fails(self.write("cut.gguf", f.read(5_000_000)), "cut.gguf")

    def test_unknown_architecture_and_type_are_named(self):
        with open(TINY, "rb") as f:
            whole = f.read()
        self.assertIn(b"general.architecture", whole)
        at = whole.index(b"llama", whole.index(b"general.architecture"))
        self.run_fails(self.write("arch.gguf", whole[:at] + b"lxama" + whole[at + 5:]), "lxama")
        name = b"blk.0.attn_q.weight"
        at = whole.index(name) + len(name) + 4 + 2 * 8  # after the count of dimensions and two of them
        self.run_fails(self.write("type.gguf", whole[:at] + (16).to_bytes(4, "little") + whole[at + 4:]), "IQ2_XXS")

    def test_flipped_bytes_never_crash(self):
        with open(TINY, "rb") as f:
            whole = f.read()
        for at in range(0, 4000, 97):
            changed = bytearray(whole)
            changed[at] ^= 0xFF
            outcome = common.surety("inspect", self.write("flipped.gguf", bytes(changed)))
            self.assertIn(outcome.code, (0, 1), (at, outcome.err))


class ContextTest(EndToEnd):
    def test_prompt_longer_than_the_context_names_both_lengths(self):
        self.fails(1, "run", "-m", MODEL, "-p", "word " * 300, "--ctx", 64, says=("64", "--ctx"))

    def test_unreadable_inputs(self):
        self.fails(1, "perplexity", "-m", MODEL, "-f", self.path("absent.txt"), says="absent.txt")
        self.fails(1, "perplexity", "-m", MODEL, "--logits", self.write("bad.safetensors", b"x" * 40), says="bad")
        self.fails(1, "embed", "-m", MODEL, "text", says="encoder")
        self.fails(1, "embed", "-f", self.write("empty.txt", "\n  \n"), says=("empty.txt", "no text"))


if __name__ == "__main__":
    common.main()

#!/usr/bin/env python3
"""Every --json report: parses, has the fields that docs/cli.md documents, and no others."""

import math
import struct

import common
from common import MODEL, EndToEnd, measured, surety


class ReportTest(EndToEnd):
    def report(self, *args, **kwargs):
        report = self.ok(*args, "--json", **kwargs).json()
        self.documented(report)
        return report

    def test_run(self):
        report = self.report("run", "-m", MODEL, "-p", "Hello", "-n", 8, "--logprobs", 1)
        for key in ("text", "token_ids", "finish_reason", "prompt_tokens", "cached_tokens", "output_tokens",
                    "ttft_seconds", "prefill_tok_per_s", "decode_tok_per_s", "load_seconds", "peak_memory_bytes",
                    "kv_bytes", "weight_bytes", "isa", "threads"):
            self.assertIn(key, report)
        self.assertGreater(report["decode_tok_per_s"], 0)
        self.assertGreater(report["peak_memory_bytes"], report["weight_bytes"])

    def test_chat(self):
        self.report("chat", "-m", MODEL, "-n", 4, stdin="Hello\n")

    @measured
    def test_bench_has_one_object_a_row(self):
        report = self.report("bench", "-m", MODEL, "--prompt", "16,32", "--gen", "4", "--depth", "0,64",
                             "--sequences", "1,3", "--repetitions", "2", "--quick-roofs")
        self.assertEqual(len(report["results"]), 2 * (2 + 2))
        for row in report["results"]:
            speed = "prefill_tok_per_s" if "prefill_tok_per_s" in row else "decode_tok_per_s"
            self.assertGreater(row[speed], 0)
            self.assertLessEqual(row[speed + "_min"], row[speed])
            self.assertLessEqual(row[speed], row[speed + "_max"])
            self.assertTrue(0 < row["share_of_roof"] < 1.5, row)
            self.assertIn(row["depth"], (0, 64))
            self.assertIn(row["sequences"], (1, 3))
            self.assertEqual(row["repetitions"], 2)
        for key in ("model", "machine", "roofs"):
            self.assertTrue(report[key])

    def test_bench_prints_a_table(self):
        out = self.ok("bench", "-m", MODEL, "--prompt", "16", "--gen", "2", "--depth", "0", "--sequences", "1",
                      "-r", "1", "--quick-roofs").out
        for word in ("pp16", "tg2", "tok/s", "roofs:", "GB/s"):
            self.assertIn(word, out)

    def test_perplexity_and_its_own_logits(self):
        text = self.write("text.txt", "The sun rises in the east and sets in the west. " * 8)
        logits = self.path("logits.safetensors")
        first = self.report("perplexity", "-m", MODEL, "-f", text, "--max-tokens", 64, "--write-logits", logits)
        self.assertTrue(1 < first["perplexity"] < 100, first)
        self.assertAlmostEqual(math.exp(first["cross_entropy"]), first["perplexity"], places=6)
        self.assertEqual((first["tokens"], first["predicted_tokens"]), (64, 63))
        again = self.report("perplexity", "-m", MODEL, "--logits", logits)
        self.assertEqual((again["kl_mean"], again["kl_max"], again["top1_agreement"]), (0, 0, 1))
        self.assertEqual(again["cross_entropy"], first["cross_entropy"])
        rough = self.report("perplexity", "-m", MODEL, "--logits", logits, "--kv-type", "q8_0")
        self.assertTrue(0 < rough["kl_mean"] < 0.05, rough)

    def test_perplexity_in_pieces(self):
        text = self.write("text.txt", "The sun rises in the east and sets in the west. " * 8)
        report = self.report("perplexity", "-m", MODEL, "-f", text, "--max-tokens", 64, "--context", 16)
        self.assertEqual((report["predicted_tokens"], report["context"]), (60, 16))

    def test_both_cross_entropies_are_over_the_same_tokens(self):
        text = self.write("text.txt", "The sun rises in the east and sets in the west. " * 8)
        logits = self.path("logits.safetensors")
        for context in (64, 16, 5):
            cut = ("perplexity", "-m", MODEL, "--context", context)
            self.ok(*cut, "-f", text, "--max-tokens", 64, "--write-logits", logits)
            report = self.report(*cut, "--logits", logits)
            self.assertAlmostEqual(report["reference_cross_entropy"], report["cross_entropy"], places=6)

    def test_reference_rows_that_are_no_distribution_are_named(self):
        text = self.write("text.txt", "The sun rises in the east.")
        logits = self.path("logits.safetensors")
        vocab = self.report("inspect", MODEL)["vocab"]
        tokens = self.report("perplexity", "-m", MODEL, "-f", text, "--write-logits", logits)["tokens"]
        self.assertGreater(tokens, 4)
        for values in ((math.nan,), (math.inf,), (-math.inf,) * vocab):
            with open(logits, "rb") as f:
                contents = bytearray(f.read())
            at = len(contents) - (tokens - 3) * vocab * 4
            contents[at:at + 4 * len(values)] = struct.pack(f"<{len(values)}f", *values)
            bad = self.write("bad.safetensors", bytes(contents))
            self.fails(1, "perplexity", "-m", MODEL, "--json", "--logits", bad, says=("bad.safetensors", "row 3"))

    def test_model_in_a_folder_with_a_slash_has_a_name(self):
        found = surety("models", "path", "all-MiniLM-L6-v2")
        if found.code != 0:
            self.skipTest("all-MiniLM-L6-v2 is not on this machine")
        self.assertEqual(self.report("embed", "-m", found.out.strip() + "/", "x")["model"], "all-MiniLM-L6-v2")

    def test_inspect(self):
        report = self.report("inspect", MODEL)
        self.assertEqual(report["architecture"], "llama")
        self.assertTrue(self.ok("inspect", MODEL).out)
        tensors = self.report("inspect", MODEL, "--tensors")["tensors"]
        self.assertEqual(len(tensors["list"]), tensors["count"])
        self.assertEqual(sum(tensor["bytes"] for tensor in tensors["list"]), tensors["bytes"])
        self.assertIn("token_embd.weight", self.ok("inspect", MODEL, "--tensors").out)

    def test_models_and_version(self):
        names = {model["name"]: model for model in self.report("models")["models"]}
        self.assertEqual(names[MODEL]["state"], "local")
        self.assertEqual([name for name, model in names.items() if model["default"]], ["qwen2.5-coder-0.5b-instruct"])
        self.assertTrue(self.report("version")["version"])

    def test_embed(self):
        if surety("models", "path", "all-MiniLM-L6-v2").code != 0:
            self.skipTest("all-MiniLM-L6-v2 is not on this machine")
        texts = ("A cat sat on the mat.", "A kitten lay on the rug.", "Interest rates rose.")
        report = self.report("embed", *texts, "--cosine")
        self.assertEqual((report["dimensions"], len(report["embeddings"])), (384, 3))
        near, far = report["cosine"][0][1], report["cosine"][0][2]
        self.assertGreater(near, far + 0.2)
        self.assertAlmostEqual(sum(x * x for x in report["embeddings"][0]["embedding"]), 1, places=4)
        self.assertNotIn("cosine", self.report("embed", *texts))

    def test_embed_lines_of_a_file_keep_their_numbers(self):
        if surety("models", "path", "all-MiniLM-L6-v2").code != 0:
            self.skipTest("all-MiniLM-L6-v2 is not on this machine")
        lines = self.write("lines.txt", "one\n\n  \ntwo\r\n\nthree")
        embeddings = self.report("embed", "zero", "-f", lines)["embeddings"]
        self.assertEqual([(entry.get("line"), entry["text"]) for entry in embeddings],
                         [(None, "zero"), (1, "one"), (4, "two"), (6, "three")])
        self.fails(1, "embed", "-f", self.write("long.txt", "a\n\n" + "word " * 2000), says=("long.txt", "line 3"))


if __name__ == "__main__":
    common.main()

#!/usr/bin/env python3
"""surety train-draft: files in the public form, the same bits after an interruption, consent, mistakes."""

import json
import os
import re
import signal
import struct

import common
from common import MODEL, EndToEnd, start

FEW = ("--answer-tokens", 12, "--draft-vocab", 128, "--ffn", 64, "--depths", 2, "--batch-tokens", 96, "--top", 8,
       "--holdout", 0.2)
TENSORS = {"fc.weight": [576, 1728], "midlayer.self_attn.q_proj.weight": [576, 1152],
           "midlayer.self_attn.k_proj.weight": [192, 1152], "midlayer.self_attn.v_proj.weight": [192, 1152],
           "midlayer.self_attn.o_proj.weight": [576, 576], "midlayer.mlp.gate_proj.weight": [64, 576],
           "midlayer.mlp.up_proj.weight": [64, 576], "midlayer.mlp.down_proj.weight": [576, 64],
           "midlayer.input_layernorm.weight": [576], "midlayer.hidden_norm.weight": [576],
           "midlayer.post_attention_layernorm.weight": [576], "norm.weight": [576], "lm_head.weight": [128, 576],
           "d2t": [128], "t2d": [49152]}


def prompts(n):
    return "".join(json.dumps({"prompt": f"Write the number {i} and the one after it."}) + "\n" for i in range(n))


def read_safetensors(path):
    """Header entries and their bytes, by the format's description alone."""
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(size))
        data = f.read()
    header.pop("__metadata__", None)
    covered = sorted(entry["data_offsets"] for entry in header.values())
    assert covered[0][0] == 0 and covered[-1][1] == len(data)
    assert all(a[1] == b[0] for a, b in zip(covered, covered[1:])), "holes or overlaps"
    return header, {name: data[slice(*entry["data_offsets"])] for name, entry in header.items()}


class TrainDraftTest(EndToEnd):
    def train(self, output, *args, data=None, **kwargs):
        return self.ok("train-draft", "-m", MODEL, "-d", data or self.data, "-o", self.path(output), *FEW, *args,
                       **kwargs)

    def setUp(self):
        super().setUp()
        self.data = self.write("prompts.jsonl", prompts(10))

    def bytes_of(self, output):
        with open(os.path.join(self.path(output), "model.safetensors"), "rb") as f:
            return f.read()

    def test_a_head_in_the_public_form(self):
        report = self.train("head", "--steps", 6, "--dtype", "f32", "--json").json()
        self.documented(report)
        self.assertEqual((report["texts"], report["held_out_texts"], report["steps"]), (10, 2, 6))
        self.assertEqual(report["tap_layers"], [2, 15, 27])
        first, last = report["measurements"][0], report["measurements"][-1]
        self.assertLess(last["loss"][0], first["loss"][0])
        header, data = read_safetensors(os.path.join(self.path("head"), "model.safetensors"))
        self.assertEqual({name: entry["shape"] for name, entry in header.items()}, TENSORS)
        self.assertEqual({entry["dtype"] for entry in header.values()}, {"F32", "I64", "BOOL"})
        offsets = struct.unpack("<128q", data["d2t"])
        ids = [i + offset for i, offset in enumerate(offsets)]
        self.assertEqual(ids, sorted(set(ids)))
        self.assertEqual([i for i, known in enumerate(data["t2d"]) if known], ids)
        with open(os.path.join(self.path("head"), "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        self.assertEqual(config["architectures"], ["LlamaForCausalLMEagle3"])
        self.assertEqual(config["eagle_config"]["eagle_aux_hidden_state_layer_ids"], [2, 15, 27])
        self.assertEqual((config["draft_vocab_size"], config["vocab_size"]), (128, 49152))
        for name in ("report.html", "loss.svg", "acceptance.svg", "training.json"):
            self.assertTrue(os.path.getsize(os.path.join(self.path("head"), name)))
        self.assertFalse(os.path.exists(self.path("head/work")))
        self.fails(1, "train-draft", "-m", MODEL, "-d", self.data, "-o", self.path("head"), says="a head is there")

    def test_after_ctrl_c_it_ends_in_the_same_bits(self):
        self.train("whole", "--steps", 24, "-t", 1)
        process = start("train-draft", "-m", MODEL, "-d", self.data, "-o", self.path("part"), *map(str, FEW),
                        "--steps", "24", "-t", "2", "--checkpoint-seconds", "0")
        said = b""
        while b"step 4/24" not in said:
            piece = os.read(process.stderr.fileno(), 4096)
            self.assertTrue(piece, said)
            said += piece
        process.send_signal(signal.SIGINT)
        said += process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 130, said)
        kept = re.search(rb"step (\d+) of 24 is kept .*--resume", said)
        self.assertTrue(kept and 4 <= int(kept.group(1)) < 24, said)
        self.fails(1, "train-draft", "-m", MODEL, "-d", self.data, "-o", self.path("part"), *FEW, says="--resume")
        self.fails(1, "train-draft", "-m", MODEL, "-d", self.data, "-o", self.path("part"), *FEW, "--resume",
                   "--steps", 41, says=("steps", "24", "41"))
        report = self.train("part", "--steps", 24, "--resume", "--json").json()
        self.assertTrue(report["resumed"])
        self.assertEqual(self.bytes_of("part"), self.bytes_of("whole"))

    def test_served_texts_need_consent(self):
        served = {"messages": [{"role": "user", "content": "Say one."}, {"role": "assistant", "content": "One, two."}]}
        lines = [served, {**served, "consent": True}, {**served, "consent": False}]
        data = self.write("mixed.jsonl", "".join(json.dumps(line) + "\n" for line in lines) + prompts(3))
        report = self.train("head", "--steps", 1, "--json", data=data).json()
        self.assertEqual((report["texts"], report["refused_texts"]), (4, 2))
        self.assertEqual((report["answered_texts"], report["cut_texts"], report["lost_turns"]), (3, 0, 0))
        self.fails(1, "train-draft", "-m", MODEL, "-d", data, "-o", self.path("other"), "--strict",
                   says=("mixed.jsonl:1", "consent"))

    def test_what_is_anothers_is_kept(self):
        base = ("train-draft", "-m", MODEL, "-d", self.data, *FEW, "--steps", 1)
        os.mkdir(self.path("mine"))
        for name in ("samples.jsonl", "letter.txt"):
            kept = self.write(f"mine/{name}", "mine")
            self.fails(1, *base, "-o", self.path("h"), "--work", self.path("mine"), says=(name, "--work"))
            with open(kept, encoding="utf-8") as f:
                self.assertEqual(f.read(), "mine")
            os.unlink(kept)
        os.mkdir(self.path("taken"))
        self.write("taken/config.json", "mine")
        self.fails(1, *base, "-o", self.path("taken"), says=("config.json", "-o"))
        self.assertEqual(os.listdir(self.path("taken")), ["config.json"])
        twice = self.write("twice.jsonl", prompts(1) + '{"prompt": "x", "consent": false, "consent": true}\n')
        self.fails(1, "train-draft", "-m", MODEL, "-d", twice, "-o", self.path("h"), says="twice.jsonl:2: the key")

    def test_kept_work_is_trained_on_again(self):
        self.train("head", "--steps", 1, "--keep-work")
        before = self.bytes_of("head")
        self.train("head", "--steps", 2, "--retrain", "--keep-work")  # its own output may be replaced
        self.assertNotEqual(self.bytes_of("head"), before)
        os.mkdir(self.path("taken"))
        self.write("taken/report.html", "mine")
        self.fails(1, "train-draft", "-m", MODEL, "-d", self.data, "-o", self.path("taken"), *FEW, "--steps", 2,
                   "--retrain", "--work", self.path("head/work"), says="report.html")

    def test_a_head_in_the_folder_of_heads_drafts_for_its_model(self):
        self.train(f"heads/{MODEL}", "--steps", 1)
        base = ("run", "-m", MODEL, "-p", "Count from one to nine.", "-n", 24, "--draft-head-floor", 0, "--json")
        heads = {"SURETY_HEADS": self.path("heads")}
        os.mkdir(self.path("none"))
        plain = self.ok(*base, env={"SURETY_HEADS": self.path("none")}).json()
        self.assertNotIn("draft_head", plain)
        for more in ((), ("--speculate", "model"), ("--speculate", "always")):
            answer = self.ok(*base, *more, env=heads).json()
            self.assertIn("EAGLE-3", answer["draft_head"])
            self.assertEqual(answer["text"], plain["text"])
        for more in (("--draft-head", "none"), ("--speculate", "lookup"), ("--speculate", "off"), ("--draft-max", 0)):
            self.assertNotIn("draft_head", self.ok(*base, *more, env=heads).json())
        copied = self.path("copy.gguf")
        os.symlink(common.model_path(), copied)  # another place may hold other weights
        self.assertNotIn("draft_head", self.ok("run", "-m", copied, *base[3:], env=heads).json())
        self.fails(1, *base, "--speculate", "model", env={"SURETY_HEADS": self.path("none")},
                   says=("no draft head for", "--draft-head"))
        self.fails(2, *base, "--speculate", "model", "--draft-head", "none", says="nothing is left")
        self.fails(1, *base, env={"SURETY_HEADS": self.path("nowhere")}, says=("SURETY_HEADS", "nowhere"))
        self.fails(1, *base[:-3], env=heads, says=("--draft-head none", "below the floor"))  # it has learned one step
        os.truncate(self.path(f"heads/{MODEL}/model.safetensors"), 1000)
        self.fails(1, *base, env=heads, says=("--draft-head none", "model.safetensors"))

    def test_mistakes_are_named(self):
        bad = self.write("bad.jsonl", prompts(2) + '{"prompt": 3}\n')
        base = ("train-draft", "-m", MODEL, "-o", self.path("x"))
        self.fails(1, *base, "-d", bad, says="bad.jsonl:3: \"prompt\" must be text")
        self.fails(1, *base, "-d", self.path("none.jsonl"), says="none.jsonl")
        self.fails(2, *base, says="-d")
        self.fails(2, "train-draft", "-d", self.data, says="-o")
        self.fails(2, *base, "-d", self.data, "--dtype", "f64", says=("--dtype", "bf16"))
        self.fails(2, *base, "-d", self.data, "--holdout", 1, says="--holdout")
        self.fails(1, *base, "-d", self.data, "--tap-layers", "2,30", says=("--tap-layers", "0 to 29"))
        self.fails(1, *base, "-d", self.data, "--resume", says="no unfinished work")
        self.fails(1, *base, "-d", self.data, *FEW, "--work-limit", 1e-6, says=("--work-limit", "--max-texts"))


if __name__ == "__main__":
    common.main()

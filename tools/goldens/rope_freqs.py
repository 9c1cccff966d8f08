"""Writes testdata/golden/rope_freqs.json: inverse frequencies of rotary embeddings under each scaling.

Usage: rope_freqs.py     (needs torch, transformers)

Each case holds the configuration as config.json has it and, from transformers' modeling_rope_utils in
float32, the frequencies and the factor on cos and sin.
"""

import os

import transformers as tf
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import common

BASE = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=1,
            intermediate_size=64, vocab_size=256)
YARN = dict(rope_type="yarn", factor=40.0, original_max_position_embeddings=4096, beta_fast=32, beta_slow=1)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)
# name: (head size, theta, max positions, scaling)
CASES = {
    "plain-64": (64, 10000.0, 4096, dict(rope_type="default")),
    "plain-128": (128, 1e6, 32768, dict(rope_type="default")),
    "plain-odd-half-18": (18, 10000.0, 4096, dict(rope_type="default")),
    "linear-8": (256, 1e6, 131072, dict(rope_type="linear", factor=8.0)),
    "linear-2.5": (64, 10000.0, 8192, dict(rope_type="linear", factor=2.5)),
    "llama3.1": (128, 500000.0, 131072, LLAMA3),
    "llama3.2": (64, 500000.0, 131072, {**LLAMA3, "factor": 32.0}),
    "llama3-narrow-band": (64, 10000.0, 4096, {**LLAMA3, "low_freq_factor": 2.0, "high_freq_factor": 2.5,
                                               "original_max_position_embeddings": 512}),
    "yarn-qwen2.5": (128, 1e6, 131072, dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32768)),
    "yarn-deepseek-v2": (64, 10000.0, 163840, {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707}),
    "yarn-deepseek-v3": (64, 10000.0, 163840, {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}),
    "yarn-unequal-mscale": (64, 10000.0, 163840, {**YARN, "mscale": 1.2, "mscale_all_dim": 0.5}),
    "yarn-mscale-alone": (64, 10000.0, 163840, {**YARN, "mscale": 1.2}),
    "yarn-attention-factor": (128, 1e6, 131072, {**YARN, "attention_factor": 0.75}),
    "yarn-short": (16, 10000.0, 256, dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)),
    "yarn-equal-limits": (8, 1e9, 256, dict(rope_type="yarn", factor=2.0, original_max_position_embeddings=8,
                                            beta_fast=1.01, beta_slow=1.0)),
}


def case(head, theta, positions, scaling):
    config = tf.LlamaConfig(**BASE, head_dim=head, max_position_embeddings=positions,
                            rope_parameters=dict(scaling, rope_theta=theta))
    kind = scaling["rope_type"]
    if kind == "default":
        inv_freq, magnitude = tf.models.llama.modeling_llama.LlamaRotaryEmbedding.compute_default_rope_parameters(
            config)
    else:
        inv_freq, magnitude = ROPE_INIT_FUNCTIONS[kind](config)
    return dict(config=dict(head_dim=head, rope_theta=theta, max_position_embeddings=positions, rope_scaling=scaling),
                inv_freq=[float(f) for f in inv_freq], magnitude=float(magnitude))


if __name__ == "__main__":
    out = {"provenance": common.provenance(__file__, 0, "torch", "transformers"),
           "cases": {name: case(*args) for name, args in CASES.items()}}
    common.save_json(os.path.join(common.TESTDATA, "golden", "rope_freqs.json"), out, compact=True)

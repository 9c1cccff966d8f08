"""Writes testdata/heads: hidden states of a tiny target and tiny draft heads with what they must compute.

Usage: draft_heads.py      (needs numpy)

Everything is computed here by hand in float64, from the published descriptions of the heads (Cai et al. 2024 for
Medusa; Li et al. 2024, 2024 and 2025 for EAGLE-1, -2 and -3) and of the Llama decoder; no code of a framework is used.
"""

import json
import os

import numpy as np

import common

FOLDER = os.path.join(common.TESTDATA, "heads")
TARGET = os.path.join(common.TESTDATA, "tiny", "llama")
EPS = 1e-6


def read_tensors(path):
    """The F32 and I32 tensors of a safetensors file, the former as float64."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    kinds = {"F32": np.float32, "I32": np.int32}
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        array = np.frombuffer(data[begin:end], kinds[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = array.astype(np.float64) if entry["dtype"] == "F32" else array
    return tensors


def rms_norm(x, weight, eps=EPS):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def rotate(x, positions, base=10000.0):
    """Rotary embedding of x [T, heads, E]: the pair (i, i + E/2) turns by position * base^(-2i/E)."""
    half = x.shape[-1] // 2
    angle = positions[:, None] * base ** (-np.arange(half) / half)[None, :]
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    low, high = x[..., :half], x[..., half:]
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)


def attention(inputs, w, prefix, positions, n_heads, n_kv_heads, cache=None):
    """Causal attention of `inputs` [T, *]; with `cache` = [keys, values] of earlier positions, which it extends."""
    n = len(inputs)

    def project(name):
        y = inputs @ w[prefix + name + "_proj.weight"].T
        return y + w[prefix + name + "_proj.bias"] if prefix + name + "_proj.bias" in w else y

    q = rotate(project("q").reshape(n, n_heads, -1), positions)
    k = rotate(project("k").reshape(n, n_kv_heads, -1), positions)
    v = project("v").reshape(n, n_kv_heads, -1)
    if cache is not None:
        k = cache[0] = k if cache[0] is None else np.concatenate([cache[0], k])
        v = cache[1] = v if cache[1] is None else np.concatenate([cache[1], v])
    before = len(k) - n
    out = np.zeros_like(q)
    for h in range(n_heads):
        kv = h // (n_heads // n_kv_heads)
        scores = q[:, h] @ k[:, kv].T / np.sqrt(q.shape[-1])
        scores[np.arange(len(k))[None, :] > before + np.arange(n)[:, None]] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        out[:, h] = weights / weights.sum(-1, keepdims=True) @ v[:, kv]
    return out.reshape(n, -1) @ w[prefix + "o_proj.weight"].T


def mlp(x, w, prefix):
    gate, up = x @ w[prefix + "gate_proj.weight"].T, x @ w[prefix + "up_proj.weight"].T
    return (silu(gate) * up) @ w[prefix + "down_proj.weight"].T


def target_states(w, ids, n_layers=2, n_heads=4, n_kv_heads=2):
    """The residual stream entering each layer, the normed final state and the logits of a Llama with tied output."""
    x = w["model.embed_tokens.weight"][ids]
    positions = np.arange(len(ids))
    entering = []
    for i in range(n_layers):
        entering.append(x)
        prefix = f"model.layers.{i}."
        a = rms_norm(x, w[prefix + "input_layernorm.weight"])
        x = x + attention(a, w, prefix + "self_attn.", positions, n_heads, n_kv_heads)
        x = x + mlp(rms_norm(x, w[prefix + "post_attention_layernorm.weight"]), w, prefix + "mlp.")
    final = rms_norm(x, w["model.norm.weight"])
    return entering, final, final @ w["model.embed_tokens.weight"].T


def write_taps(w):
    reference = read_tensors(os.path.join(TARGET, "reference.safetensors"))
    ids = reference["input_ids"][:24]
    entering, final, logits = target_states(w, ids)
    # The states come from a model whose logits transformers agrees with.
    assert np.abs(logits - reference["logits"][: len(ids)]).max() < 1e-4
    tensors = {"input_ids": ids.astype(np.int32), "final": final.astype(np.float32)}
    for i, x in enumerate(entering):
        tensors[f"entering_{i}"] = x.astype(np.float32)
    meta = common.provenance(__file__, 0, "numpy")
    common.save_tensors(os.path.join(FOLDER, "llama_taps.safetensors"), tensors, meta)


if __name__ == "__main__":
    target = read_tensors(os.path.join(TARGET, "model.safetensors"))
    write_taps(target)

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


# --- heads ----------------------------------------------------------------------------------------
#
# A row of an EAGLE head pairs the token of position p with the state of position p - 1, and turns as
# position p - 1. The last DEPTH rows of each reference go on with the head's own states and given
# tokens, as drafting does.

T = 20          # tokens of a reference: rows 1 .. T - 1
DEPTH = 4       # of them, with the head's own states
V, D = 256, 64  # of the target


class Weights:
    """Random tensors of one head, rounded to float32 so that the file and the reference hold the same numbers."""

    def __init__(self, seed):
        self.generator = np.random.Generator(np.random.PCG64(seed))
        self.tensors = {}

    def matrix(self, name, rows, cols, gain=1.0):
        self._keep(name, gain * cols**-0.5 * self.generator.standard_normal((rows, cols)))

    def norm(self, name, n):
        self._keep(name, 1 + 0.2 * self.generator.standard_normal(n))

    def bias(self, name, n):
        self._keep(name, 0.3 * self.generator.standard_normal(n))

    def _keep(self, name, values):
        self.tensors[name] = values.astype(np.float32).astype(np.float64)

    def layer(self, prefix, inputs, d, f, n_heads, n_kv_heads, head_dim):
        attention = prefix + "self_attn."
        self.matrix(attention + "q_proj.weight", n_heads * head_dim, inputs, 1.6)
        self.matrix(attention + "k_proj.weight", n_kv_heads * head_dim, inputs, 1.6)
        self.matrix(attention + "v_proj.weight", n_kv_heads * head_dim, inputs)
        self.matrix(attention + "o_proj.weight", d, n_heads * head_dim)
        self.matrix(prefix + "mlp.gate_proj.weight", f, d)
        self.matrix(prefix + "mlp.up_proj.weight", f, d)
        self.matrix(prefix + "mlp.down_proj.weight", d, f)
        self.norm(prefix + "post_attention_layernorm.weight", d)


def eagle1_rows(w, target, tokens, states, positions, cache, config):
    embedding = w.get("embed_tokens.weight", target["model.embed_tokens.weight"])[tokens]
    g = np.concatenate([embedding, states], axis=-1) @ w["fc.weight"].T + w.get("fc.bias", 0)
    h = g + attention(g, w, "layers.0.self_attn.", positions, config["num_attention_heads"],
                      config["num_key_value_heads"], cache)
    h = h + mlp(rms_norm(h, w["layers.0.post_attention_layernorm.weight"]), w, "layers.0.mlp.")
    return h, h @ target["model.embed_tokens.weight"].T


def eagle3_rows(w, target, tokens, states, positions, cache, config, own):
    if "fc_norm" in config and not own:
        parts = np.split(states, len(states[0]) // D, axis=-1)
        states = np.concatenate(
            [rms_norm(x, w[f"fc_norm.{i}.weight"]) for i, x in enumerate(parts)], axis=-1)
    if config.get("norm_before_fc") and not own:
        states = rms_norm(states, w["input_norm.weight"])
    g = states if own else states @ w["fc.weight"].T
    embedding = w.get("embed_tokens.weight", target["model.embed_tokens.weight"])[tokens]
    normed = rms_norm(g, w["layers.0.hidden_norm.weight"])
    a = np.concatenate([rms_norm(embedding, w["layers.0.input_layernorm.weight"]), normed], axis=-1)
    h = normed if config.get("norm_before_residual") else g
    h = h + attention(a, w, "layers.0.self_attn.", positions, config["num_attention_heads"],
                      config["num_key_value_heads"], cache)
    h = h + mlp(rms_norm(h, w["layers.0.post_attention_layernorm.weight"]), w, "layers.0.mlp.")
    output = rms_norm(h, w["norm.weight"])
    logits = output @ w.get("lm_head.weight", target["model.embed_tokens.weight"]).T
    return (output if config.get("norm_output") else h), logits


def eagle_reference(rows, tokens, states):
    """All rows with the target's states at once, then DEPTH rows one by one with the head's own."""
    cache = [None, None]
    n_true = T - 1 - DEPTH
    hidden, logits = rows(tokens[1 : n_true + 1], states[:n_true], np.arange(n_true), cache, False)
    all_hidden, all_logits = [hidden], [logits]
    for p in range(n_true, T - 1):
        hidden, logits = rows(tokens[p + 1 : p + 2], all_hidden[-1][-1:], np.arange(p, p + 1), cache, True)
        all_hidden.append(hidden)
        all_logits.append(logits)
    return {"hidden": np.concatenate(all_hidden), "logits": np.concatenate(all_logits)}


def with_noise(tensors, relative=1e-6):
    """The same numbers, each off by about `relative` of itself."""
    generator = np.random.Generator(np.random.PCG64(99))
    return {k: v * (1 + relative * generator.standard_normal(v.shape)) for k, v in tensors.items()}


def save_head(name, config, weights, tokens, states, compute, rename=lambda n: n, extra=None):
    """`compute(weights, states)` gives what is expected, by name. noise_1e-6: how far it moves under such a noise."""
    folder = os.path.join(FOLDER, name)
    expected = compute(weights, states)
    moved = compute(with_noise(weights), with_noise({"states": states})["states"])
    noise = max(np.abs(moved[k] - expected[k]).max() for k in expected)
    expected.update(input_ids=tokens, states=states)
    tensors = {rename(k): v.astype(np.float32) for k, v in weights.items()}
    if extra:
        tensors.update(extra)
    common.save_tensors(os.path.join(folder, "model.safetensors"), tensors, {"format": "np"})
    if config is not None:
        common.save_json(os.path.join(folder, "config.json"), config)
    meta = common.provenance(__file__, 0, "numpy")
    meta["noise_1e-6"] = f"{noise:.3g}"
    expected = {k: v.astype(np.int32 if k == "input_ids" else np.float32) for k, v in expected.items()}
    common.save_tensors(os.path.join(folder, "reference.safetensors"), expected, meta)


def layer_config(**extra):
    return dict(hidden_size=D, intermediate_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                num_hidden_layers=1, rms_norm_eps=EPS, hidden_act="silu", vocab_size=V, rope_theta=10000.0,
                max_position_embeddings=128, **extra)


def write_eagle1(target, tokens, final):
    w = Weights(11)
    config = layer_config(architectures=["LlamaForCausalLM"], model_type="llama", bias=True)
    w.matrix("fc.weight", D, 2 * D)
    w.bias("fc.bias", D)
    w.layer("layers.0.", D, D, 32, 4, 2, 8)
    save_head("eagle1", config, w.tensors, tokens, final, lambda weights, states: eagle_reference(
        lambda t, s, p, c, own: eagle1_rows(weights, target, t, s, p, c, config), tokens, states))


def write_eagle3(target, tokens, states, name, seed, config, vllm_names, **parts):
    w = Weights(seed)
    width = config["hidden_size"]
    draft_vocab = config.get("draft_vocab_size", V)
    w.matrix("fc.weight", width, states.shape[1])
    w.layer("layers.0.", 2 * width, width, 32, 4, 2, 8)
    for norm in ("input_layernorm", "hidden_norm"):
        w.norm("layers.0." + norm + ".weight", width)
    w.norm("norm.weight", width)
    if draft_vocab != V or width != D or parts.get("own_output"):
        w.matrix("lm_head.weight", draft_vocab, width, 4.0)
    if width != D or parts.get("own_embedding"):
        w.matrix("embed_tokens.weight", V, width, 8.0)
    if config.get("norm_before_fc"):
        w.norm("input_norm.weight", states.shape[1])
    if config.get("fc_norm"):
        for i in range(states.shape[1] // D):
            w.norm(f"fc_norm.{i}.weight", D)
    extra = {}
    if draft_vocab != V:
        ids = np.sort(w.generator.permutation(V)[:draft_vocab])
        extra["d2t"] = (ids - np.arange(draft_vocab)).astype(np.int64)
        mask = np.zeros(V, np.bool_)
        mask[ids] = True
        extra["t2d"] = mask
    rename = (lambda n: n) if vllm_names else (lambda n: n.replace("layers.0.", "midlayer."))
    written = config
    if parts.get("nested"):
        layer_keys = set(layer_config())
        written = {k: v for k, v in config.items() if k not in layer_keys}
        written["transformer_layer_config"] = {k: v for k, v in config.items() if k in layer_keys}
    save_head(name, written, w.tensors, tokens, states, lambda weights, read: eagle_reference(
        lambda t, s, p, c, own: eagle3_rows(weights, target, t, s, p, c, config, own), tokens, read), rename, extra)


def write_medusa(tokens, final, name, seed, vllm_names, n_heads, n_layers, shared_output, bias):
    w = Weights(seed)

    def block_of(i, j):
        return f"blocks.{i}.layers.{j}" if vllm_names else f"{i}.{j}.linear"

    def output_of(i):
        if not vllm_names:
            return f"{i}.{n_layers}.weight"
        return "lm_heads.0.weight" if shared_output else f"lm_heads.{i}.weight"

    for i in range(n_heads):
        for j in range(n_layers):
            w.matrix(block_of(i, j) + ".weight", D, D)
            if bias:
                w.bias(block_of(i, j) + ".bias", D)
        if output_of(i) not in w.tensors:
            w.matrix(output_of(i), V // 4 if shared_output else V, D, 4.0)

    def compute(weights, states):
        expected = {}
        for i in range(n_heads):
            x = states
            for j in range(n_layers):
                x = x + silu(x @ weights[block_of(i, j) + ".weight"].T + weights.get(block_of(i, j) + ".bias", 0))
            expected[f"logits_{i}"] = x @ weights[output_of(i)].T
        return expected

    extra = {}
    if shared_output:
        extra["token_map"] = np.sort(w.generator.permutation(V)[: V // 4]).astype(np.int64)
    # As in published files, the count is not that of the tensors.
    config = dict(medusa_num_heads=2, medusa_num_layers=1, base_model_name_or_path="tiny/llama")
    if vllm_names:
        config = dict(architectures=["MedusaModel"], model_type="medusa", num_heads=n_heads, hidden_size=D,
                      vocab_size=V, original_lm_head=shared_output, truncated_vocab_size=V // 4)
    save_head(name, config, w.tensors, tokens, states=final, compute=compute, extra=extra)


def write_heads(target):
    generator = np.random.Generator(np.random.PCG64(5))
    tokens = generator.integers(3, V, T).astype(np.int32)
    entering, final, _ = target_states(target, tokens)
    # Any states do for the network; three of them, though the target has two layers.
    final = final.astype(np.float32).astype(np.float64)
    three = np.concatenate([entering[0], entering[1], entering[0]], axis=-1).astype(np.float32).astype(np.float64)
    write_eagle1(target, tokens, final)
    ids = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 0]}}
    write_eagle3(target, tokens, three, "eagle3", 21,
                 layer_config(architectures=["LlamaForCausalLMEagle3"], draft_vocab_size=96, **ids), False)
    write_eagle3(target, tokens, three, "eagle3_speculators", 22,
                 layer_config(architectures=["Eagle3Speculator"], speculators_model_type="eagle3",
                              draft_vocab_size=V, norm_before_residual=True, norm_before_fc=True, norm_output=True,
                              eagle_aux_hidden_state_layer_ids=[0, 1, 0]), True, nested=True, own_output=True)
    narrow = layer_config(architectures=["Eagle3LlamaForCausalLM"], draft_vocab_size=80, target_hidden_size=D,
                          fc_norm=True, **ids)
    narrow["hidden_size"] = 48
    write_eagle3(target, tokens, three, "eagle3_narrow", 23, narrow, True)
    write_medusa(tokens, final, "medusa", 31, False, 3, 1, False, True)
    write_medusa(tokens, final, "medusa_vllm", 32, True, 2, 2, True, False)


# --- a target whose next token depends on the last one alone, and heads that know it -------------------
#
# All its layers add nothing, so its hidden states are the embedding, and its logits are those of a
# permutation of the tokens with some noise: logits(x) = OUTPUT e_x with OUTPUT[next(x)] = 0.1 e_x. Heads
# that are right are then few lines.


def write_markov():
    folder = os.path.join(FOLDER, "markov")
    generator = np.random.Generator(np.random.PCG64(41))
    e = generator.standard_normal((V, D))
    e /= np.sqrt(np.mean(e * e, axis=-1, keepdims=True) + EPS)  # the norm leaves it as it is
    # One cycle over all tokens but the special ones, so that greedy text does not end.
    order = 3 + generator.permutation(V - 3)
    following = np.full(V, order[0])
    following[order] = np.roll(order, -1)
    output = np.zeros((V, D))
    output[following[order]] = 0.1 * e[order]
    config = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=V, hidden_size=D,
                  intermediate_size=32, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                  max_position_embeddings=512, rms_norm_eps=EPS, rope_theta=10000.0, rope_scaling=None,
                  hidden_act="silu", bos_token_id=1, eos_token_id=2, tie_word_embeddings=False, torch_dtype="float32")
    w = {"model.embed_tokens.weight": e, "lm_head.weight": output, "model.norm.weight": np.ones(D)}
    for i in range(4):
        p = f"model.layers.{i}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            w[p + name + ".weight"] = np.ones(D)
        for name, rows in (("q", 32), ("k", 16), ("v", 16)):
            w[p + f"self_attn.{name}_proj.weight"] = np.zeros((rows, D))
        w[p + "self_attn.o_proj.weight"] = np.zeros((D, 32))
        for name in ("gate", "up"):
            w[p + f"mlp.{name}_proj.weight"] = np.zeros((32, D))
        w[p + "mlp.down_proj.weight"] = np.zeros((D, 32))
    meta = {"format": "np"}
    as_f32 = lambda tensors: {k: v.astype(np.float32) for k, v in tensors.items()}
    common.save_tensors(os.path.join(folder, "target", "model.safetensors"), as_f32(w), meta)
    common.save_json(os.path.join(folder, "target", "config.json"), config)

    def save(name, tensors, head_config):
        common.save_tensors(os.path.join(folder, name, "model.safetensors"), as_f32(tensors), meta)
        common.save_json(os.path.join(folder, name, "config.json"), head_config)

    def layer(inputs, d_ff=16):
        shapes = {"self_attn.q_proj": (D, inputs), "self_attn.k_proj": (D, inputs),
                  "self_attn.v_proj": (D, inputs), "self_attn.o_proj": (D, D),
                  "mlp.gate_proj": (d_ff, D), "mlp.up_proj": (d_ff, D), "mlp.down_proj": (D, d_ff)}
        tensors = {f"layers.0.{name}.weight": np.zeros(shape) for name, shape in shapes.items()}
        tensors["layers.0.post_attention_layernorm.weight"] = np.ones(D)
        return tensors

    base = dict(model_type="llama", hidden_size=D, intermediate_size=16, num_attention_heads=4, num_key_value_heads=4,
                num_hidden_layers=1, rms_norm_eps=EPS, hidden_act="silu", vocab_size=V, max_position_embeddings=512)
    # EAGLE-1: the embedding goes through fc, and nothing else does anything.
    save("eagle1", {**layer(D), "fc.weight": np.concatenate([np.eye(D), np.zeros((D, D))], axis=1)},
         dict(base, architectures=["LlamaForCausalLM"]))
    # EAGLE-3: attention sees its own position and moves the embedding up; the normed state, which the residual is, is
    # taken away again. fc makes states that would drown all else if the residual were not normed.
    third = layer(2 * D)
    look = np.concatenate([4 * np.eye(D), np.zeros((D, D))], axis=1)
    third.update({"layers.0.self_attn.q_proj.weight": look, "layers.0.self_attn.k_proj.weight": look,
                  "layers.0.self_attn.v_proj.weight": np.concatenate([np.eye(D), -np.eye(D)], axis=1),
                  "layers.0.self_attn.o_proj.weight": np.eye(D), "layers.0.input_layernorm.weight": np.ones(D),
                  "layers.0.hidden_norm.weight": np.ones(D), "norm.weight": np.ones(D),
                  "fc.weight": 8 * (3 * D) ** -0.5 * generator.standard_normal((D, 3 * D))})
    save("eagle3", third, dict(base, architectures=["Eagle3LlamaForCausalLM"], norm_before_residual=True))
    # Medusa: head i knows the token i + 2 places on.
    medusa, ahead = {}, following[following]
    for i in range(3):
        medusa[f"{i}.0.linear.weight"] = np.zeros((D, D))
        medusa[f"{i}.0.linear.bias"] = np.zeros(D)
        matrix = np.zeros((V, D))
        matrix[ahead[order]] = 0.1 * e[order]
        medusa[f"{i}.1.weight"] = matrix
        ahead = following[ahead]
    save("medusa", medusa, dict(medusa_num_heads=3, medusa_num_layers=1))


if __name__ == "__main__":
    target = read_tensors(os.path.join(TARGET, "model.safetensors"))
    write_taps(target)
    write_heads(target)
    write_markov()

"""Writes testdata/gguf/tiny-*.gguf: whole quantised models, each with reference logits.

Usage: gguf_models.py [--check]     (needs torch, transformers, gguf, safetensors, llama-cpp-python)

A random transformers model is quantised tensor by tensor with llama.cpp's own quantiser, read back
with `gguf`'s dequantize, and run in float32 with the values that the file holds: the logits are
exact for the file. <name>.reference.safetensors holds `input_ids` I32 [T] and `logits` F32 [T, V].
The conventions are those of llama.cpp's converter: rows of llama's attn_q and attn_k permuted for
adjacent-pair rotation, Gemma norms stored plus one, tied output left out. --check also runs each
model in llama.cpp, written once as F32: agreement there proves the conventions (1e-5, but 4e-3 for
Gemma, whose GELU llama.cpp looks up in a half-precision table), and quantised, where llama.cpp
rounds activations too. It reads llama and qwen2 files back through transformers as well.
"""

import ctypes
import json
import os
import sys
import tempfile

import gguf
import numpy as np
import torch
import transformers as tf

import common

T = 40
Q = gguf.GGMLQuantizationType
HEADS = dict(num_attention_heads=4, num_key_value_heads=2)
WIDE = dict(
    hidden_size=256,
    intermediate_size=256,
    num_hidden_layers=1,
    num_attention_heads=4,
    num_key_value_heads=1,
    max_position_embeddings=128,
    tie_word_embeddings=True,
)
# Every remaining type in one model, one a tensor.
MIXED = {
    "token_embd": Q.Q4_K,
    "attn_q": Q.Q2_K,
    "attn_k": Q.Q3_K,
    "attn_v": Q.Q5_K,
    "attn_output": Q.IQ4_XS,
    "ffn_gate": Q.IQ4_NL,
    "ffn_up": Q.Q4_1,
    "ffn_down": Q.Q5_1,
}


def small(hidden, layers, **extra):
    return dict(
        hidden_size=hidden,
        intermediate_size=64,
        num_hidden_layers=layers,
        max_position_embeddings=128,
        **extra,
    )


# name: (vocabulary, config of its size, types by tensor with "" for the rest)
MODELS = {
    "tiny-llama-q8_0": (
        "spm",
        lambda v: tf.LlamaConfig(**small(64, 2, **HEADS), **v, tie_word_embeddings=False),
        {"": Q.Q8_0},
    ),
    "tiny-llama-q4_0": (
        "spm",
        lambda v: tf.LlamaConfig(  # rows of 96: no K-quant fits
            **{**small(96, 2), "num_attention_heads": 3, "num_key_value_heads": 3},
            **v,
            tie_word_embeddings=True,
        ),
        {"": Q.Q4_0, "token_embd": Q.Q8_0},
    ),
    "tiny-llama-q4_k": (
        "bpe-llama3",
        lambda v: tf.LlamaConfig(
            **WIDE, **v, rope_parameters=dict(rope_type="default", rope_theta=500000.0)
        ),
        {"": Q.Q4_K, "token_embd": Q.Q6_K, "attn_v": Q.Q6_K, "ffn_down": Q.Q6_K},
    ),
    "tiny-llama-mixed": ("bpe-llama3", lambda v: tf.LlamaConfig(**WIDE, **v), MIXED),
    "tiny-qwen2-q5_0": (
        "bpe-qwen2",
        lambda v: tf.Qwen2Config(
            **small(64, 2, **HEADS),
            **v,
            tie_word_embeddings=False,
            use_sliding_window=False,
            rope_parameters=dict(rope_type="default", rope_theta=1e6),
        ),
        {"": Q.Q5_0, "output": Q.Q8_0},
    ),
    "tiny-gemma3-q8_0": (
        "spm-gemma",
        lambda v: tf.Gemma3TextConfig(
            **small(64, 6),
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=32,
            **v,
            query_pre_attn_scalar=32,
            sliding_window=8,
            rope_parameters=dict(
                full_attention=dict(rope_type="default", rope_theta=1e6),
                sliding_attention=dict(rope_type="default", rope_theta=1e4),
            ),
        ),
        {"": Q.Q8_0},
    ),
    "tiny-qwen3-f16": (
        "bpe-qwen2",
        lambda v: tf.Qwen3Config(
            **small(64, 2),
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=64,
            **v,
            tie_word_embeddings=True,
            use_sliding_window=False,
            rope_parameters=dict(rope_type="default", rope_theta=1e6),
        ),
        {"": Q.F16},
    ),
}
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def gguf_name(name, arch):
    """`model.layers.0.self_attn.q_proj.weight` to `blk.0.attn_q.weight`."""
    stem, kind = name.rsplit(".", 1)
    if not stem.startswith("model.layers."):
        return f"{NAMES[stem]}.{kind}"
    _, _, layer, part = stem.split(".", 3)
    if arch == "gemma3" and part == "post_attention_layernorm":
        return f"blk.{layer}.post_attention_norm.{kind}"
    return f"blk.{layer}.{NAMES[part]}.{kind}"


def permute(w, heads):
    """Rows of each head from halves (Hugging Face) to pairs (llama.cpp), as its converter does."""
    return (
        w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)
    )


def unpermute(w, heads):
    return (
        w.reshape(heads, w.shape[0] // heads // 2, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)
    )


def quantise(w, kind):
    """llama.cpp's quantiser on the rows of `w`; returns the packed rows."""
    import llama_cpp

    lib = ctypes.CDLL(os.path.join(os.path.dirname(llama_cpp.__file__), "lib", "libggml-base.so"))
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = (
        [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    )
    w = np.ascontiguousarray(w, np.float32)
    block, size = gguf.GGML_QUANT_SIZES[kind]
    packed = np.zeros((w.shape[0], w.shape[1] // block * size), np.uint8)
    weight = np.ones(w.shape[1], np.float32)  # the importance that some types ask for
    written = lib.ggml_quantize_chunk(
        int(kind), w.ctypes.data, packed.ctypes.data, 0, w.shape[0], w.shape[1], weight.ctypes.data
    )
    assert written == packed.nbytes, (kind, written, packed.nbytes)
    return packed


def vocabulary(kind):
    """Part of a trained tokenizer: (tokens, types, scores or None, merges or None, special)."""
    source = "llama2-normalizer" if kind.startswith("spm") else "gpt2-style"
    path = os.path.join(common.TESTDATA, "tokenizer", source, "tokenizer.json")
    with open(path, encoding="utf-8") as f:
        model = json.load(f)["model"]
    size = 512 if kind.startswith("spm") else 316
    tokens = sorted(model["vocab"], key=model["vocab"].get)[:size]
    if kind.startswith("spm"):
        types = [2, 3, 3] + [6] * 256 + [1] * (size - 259)  # unknown, control, byte, normal
        scores = [0.0] * 259 + [-float(i) for i in range(size - 259)]
        return tokens, types, scores, None, dict(bos=1, eos=2, unk=0)
    tokens = tokens[1:] + ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>", "<tool_call>"]
    known = set(tokens)
    merges = [" ".join(m) for m in model["merges"] if "".join(m) in known]
    types = [1] * (size - 1) + [3, 3, 3, 3, 4]
    return tokens, types, None, merges, dict(bos=size - 1, eos=size + 1, pad=size + 2)


def write_metadata(w, arch, config, vocab_kind):
    tokens, types, scores, merges, special = vocabulary(vocab_kind)
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rope = config.rope_parameters
    w.add_context_length(config.max_position_embeddings)
    w.add_embedding_length(config.hidden_size)
    w.add_block_count(config.num_hidden_layers)
    w.add_feed_forward_length(config.intermediate_size)
    w.add_head_count(config.num_attention_heads)
    w.add_head_count_kv(config.num_key_value_heads)
    w.add_layer_norm_rms_eps(config.rms_norm_eps)
    w.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
    w.add_vocab_size(len(tokens))
    if arch in ("gemma3", "qwen3"):
        w.add_key_length(head)
        w.add_value_length(head)
    if arch == "llama":
        w.add_rope_dimension_count(head)
    if arch == "gemma3":
        w.add_sliding_window(config.sliding_window)
    w.add_tokenizer_model("llama" if scores else "gpt2")
    w.add_tokenizer_pre(
        "default" if scores else {"bpe-llama3": "llama-bpe"}.get(vocab_kind, "qwen2")
    )
    w.add_token_list(tokens)
    w.add_token_types(types)
    if scores:
        w.add_token_scores(scores)
        w.add_add_space_prefix(vocab_kind == "spm")
    else:
        w.add_token_merges(merges)
    w.add_bos_token_id(special["bos"])
    w.add_eos_token_id(special["eos"])
    w.add_add_bos_token(vocab_kind != "bpe-qwen2")
    w.add_chat_template(
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}"
        "<|im_end|>\n{% endfor %}"
    )


def write(path, model, arch, vocab_kind, types, meta):
    """Writes the file and puts the values that it holds back into `model`."""
    config = model.config
    w = gguf.GGUFWriter(path, arch)
    for k, v in meta.items():
        w.add_string("surety." + k, v)
    write_metadata(w, arch, config, vocab_kind)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for name, p in model.named_parameters():  # a tied output is not named
        full = gguf_name(name, arch)
        part = full.split(".")[-2]
        value = p.detach().numpy()
        if p.dim() == 1:
            stored = value + 1 if arch == "gemma3" and "norm" in part else value
            w.add_tensor(full, stored.astype(np.float32))
            continue
        permuted = arch == "llama" and part in heads
        value = permute(value, heads[part]) if permuted else value
        kind = types.get(part, types[""] if "" in types else None)
        if kind == Q.F32:
            w.add_tensor(full, np.ascontiguousarray(value))
            continue
        packed = value.astype(np.float16) if kind == Q.F16 else quantise(value, kind)
        w.add_tensor(full, packed, raw_dtype=kind)
        exact = gguf.quants.dequantize(packed.view(np.uint8), kind).astype(np.float32)
        exact = exact.reshape(value.shape)
        p.data = torch.from_numpy(unpermute(exact, heads[part]) if permuted else exact).contiguous()
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    if config.tie_word_embeddings:
        model.tie_weights()


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


def llama_cpp_logits(path, ids):
    import llama_cpp

    llm = llama_cpp.Llama(
        path,
        n_ctx=64,
        logits_all=True,
        verbose=False,
        n_threads=1,
        type_k=0,
        type_v=0,
        flash_attn=False,
    )
    llm.eval(list(map(int, ids)))
    return llm.scores[: len(ids)].copy()


def transformers_logits(path, ids):
    model = tf.AutoModelForCausalLM.from_pretrained(
        os.path.dirname(path),
        gguf_file=os.path.basename(path),
        dtype=torch.float32,
        attn_implementation="eager",
    )
    return logits_of(model.eval(), ids)


def build(name, check):
    seed = 11
    vocab_kind, make, types = MODELS[name]
    arch = name.split("-")[1]
    tokens, _, _, _, special = vocabulary(vocab_kind)
    config = make(
        dict(
            vocab_size=len(tokens),
            bos_token_id=special["bos"],
            eos_token_id=special["eos"],
            pad_token_id=None,
        )
    )
    model = tf.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    common.randomise(model, seed)
    model.tie_weights()
    r = np.random.default_rng(seed)
    ids = [special["bos"], *r.integers(3, len(tokens) - 5, T - 1).tolist()]
    meta = common.provenance(__file__, seed, "torch", "transformers", "gguf", "llama-cpp-python")
    line = name
    if check:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "f32.gguf")
            write(path, model, arch, vocab_kind, {"": Q.F32}, meta)
            other = llama_cpp_logits(path, ids)
        line += f" | F32 in llama.cpp {np.abs(other - logits_of(model, ids)).max():.2g}"
    path = os.path.join(common.TESTDATA, "gguf", name + ".gguf")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write(path, model, arch, vocab_kind, types, meta)
    logits = logits_of(model, ids)
    common.save_tensors(
        path[:-5] + ".reference.safetensors",
        {"input_ids": np.array(ids, np.int32), "logits": logits},
        meta,
    )
    line += f" std {logits.std():.2f} bytes {os.path.getsize(path)}"
    if check:
        line += f" | llama.cpp {np.abs(llama_cpp_logits(path, ids) - logits).max():.2g}"
        if arch in ("llama", "qwen2"):  # its reader guesses head size and query scale of the others
            line += f" | transformers {np.abs(transformers_logits(path, ids) - logits).max():.2g}"
    print(line, flush=True)


if __name__ == "__main__":
    print(common.versions("torch", "transformers", "gguf", "llama-cpp-python"))
    torch.set_num_threads(1)
    for model_name in MODELS:
        build(model_name, "--check" in sys.argv)

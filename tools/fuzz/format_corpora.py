"""Writes testdata/fuzz/{gguf,safetensors,hf_config}_fuzz: small valid model files to start fuzzing from.

Usage: format_corpora.py     (needs nothing but Python)

Each GGUF file is a whole model of one architecture with every tensor that it needs, at the smallest
sizes that the format allows; values are zeros, since only structure is read.
"""

import json
import os
import shutil
import struct

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FUZZ = os.path.join(REPO, "testdata", "fuzz")
F32, F16, Q8_0 = 0, 1, 8
D, H, K, E, F, V = 32, 4, 2, 8, 32, 4


def text(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def value(v):
    if isinstance(v, bool):
        return struct.pack("<I?", 7, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    if isinstance(v, float):
        return struct.pack("<If", 6, v)
    if isinstance(v, str):
        return struct.pack("<I", 8) + text(v)
    items = [value(x) for x in v]
    return struct.pack("<I", 9) + items[0][:4] + struct.pack("<Q", len(items)) + b"".join(i[4:] for i in items)


def size(kind, shape):
    n = 1
    for d in shape:
        n *= d
    return n * 4 if kind == F32 else n * 2 if kind == F16 else n // 32 * 34


def gguf(metadata, tensors, version=3, alignment=32):
    """tensors: name -> (type, shape slowest first)."""
    if alignment != 32:
        metadata = {"general.alignment": alignment, **metadata}
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for k, v in metadata.items():
        out += text(k) + value(v)
    offset = 0
    for name, (kind, shape) in tensors.items():
        out += text(name) + struct.pack("<I", len(shape))
        out += struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", kind, offset)
        offset += -(-size(kind, shape) // alignment) * alignment
    out += b"\0" * (-len(out) % alignment)
    return out + b"\0" * offset


def decoder(arch, extra=None, tensors=None, kind=F32):
    metadata = {
        "general.architecture": arch, "general.name": "tiny", f"{arch}.block_count": 1, f"{arch}.context_length": 64,
        f"{arch}.embedding_length": D, f"{arch}.feed_forward_length": F, f"{arch}.attention.head_count": H,
        f"{arch}.attention.head_count_kv": K, f"{arch}.attention.layer_norm_rms_epsilon": 1e-6,
        f"{arch}.rope.freq_base": 10000.0, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": ["a", "b", "ab", "</s>"], "tokenizer.ggml.token_type": [1, 1, 1, 3],
        "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.eos_token_id": 3, "tokenizer.chat_template": "{{ x }}",
    }
    metadata.update({k if "." in k and k.split(".")[0] in ("general", "tokenizer") else f"{arch}.{k}": v
                     for k, v in (extra or {}).items()})
    table = {"token_embd.weight": (kind, (V, D)), "output_norm.weight": (F32, (D,)),
             "blk.0.attn_norm.weight": (F32, (D,)), "blk.0.ffn_norm.weight": (F32, (D,))}
    table.update({f"blk.0.{k}": v for k, v in (tensors or attention(kind) | ffn(kind)).items()})
    return metadata, table


def attention(kind, head=E):
    return {"attn_q.weight": (kind, (H * head, D)), "attn_k.weight": (kind, (K * head, D)),
            "attn_v.weight": (kind, (K * head, D)), "attn_output.weight": (kind, (D, H * head))}


def ffn(kind):
    return {"ffn_gate.weight": (kind, (F, D)), "ffn_up.weight": (kind, (F, D)), "ffn_down.weight": (kind, (D, F))}


def gguf_models():
    yield "llama", gguf(*decoder("llama", kind=Q8_0))
    yield "llama-yarn-v2", gguf(*decoder("llama", {
        "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16,
        "general.sampling.temp": 0.5, "rope.dimension_count": E}, kind=F16), version=2, alignment=8)
    biases = {"attn_q.bias": (F32, (H * E,)), "attn_k.bias": (F32, (K * E,)), "attn_v.bias": (F32, (K * E,))}
    yield "qwen2", gguf(*decoder("qwen2", tensors=attention(Q8_0) | biases | ffn(Q8_0)))
    norms = {"attn_q_norm.weight": (F32, (E,)), "attn_k_norm.weight": (F32, (E,))}
    yield "qwen3", gguf(*decoder("qwen3", {"attention.key_length": E, "attention.value_length": E},
                                 attention(F16) | norms | ffn(F16)))
    post = {"post_attention_norm.weight": (F32, (D,)), "post_ffw_norm.weight": (F32, (D,))}
    yield "gemma3", gguf(*decoder("gemma3", {
        "attention.key_length": E, "attention.sliding_window": 8, "attention.sliding_window_pattern": [True]},
        attention(Q8_0) | norms | post | ffn(Q8_0)))
    nope, rope, rank, experts = 8, 8, 32, 4
    mla = {"attn_q.weight": (F16, (H * (nope + rope), D)), "attn_kv_a_mqa.weight": (F16, (rank + rope, D)),
           "attn_kv_a_norm.weight": (F32, (rank,)), "attn_kv_b.weight": (F16, (H * (nope + 8), rank)),
           "attn_output.weight": (F16, (D, H * 8)), "ffn_gate_inp.weight": (F32, (experts, D)),
           "exp_probs_b.bias": (F32, (experts,)), "ffn_gate_exps.weight": (F16, (experts, 8, D)),
           "ffn_up_exps.weight": (F16, (experts, 8, D)), "ffn_down_exps.weight": (F16, (experts, D, 8)),
           "ffn_gate_shexp.weight": (F16, (8, D)), "ffn_up_shexp.weight": (F16, (8, D)),
           "ffn_down_shexp.weight": (F16, (D, 8))}
    yield "deepseek2", gguf(*decoder("deepseek2", {
        "attention.kv_lora_rank": rank, "attention.key_length": nope + rope, "attention.value_length": 8,
        "rope.dimension_count": rope, "expert_count": experts, "expert_used_count": 2, "expert_shared_count": 1,
        "expert_feed_forward_length": 8, "expert_weights_norm": True, "expert_weights_scale": 2.5,
        "expert_gating_func": 2, "expert_group_count": 2, "expert_group_used_count": 1,
        "rope.scaling.type": "yarn", "rope.scaling.factor": 40.0, "rope.scaling.yarn_log_multiplier": 0.1,
        "rope.scaling.original_context_length": 16}, mla))
    yield "bert", gguf(*bert())


def bert():
    metadata = {"general.architecture": "bert", "bert.block_count": 1, "bert.context_length": 8,
                "bert.embedding_length": 8, "bert.feed_forward_length": 8, "bert.attention.head_count": 2,
                "bert.attention.layer_norm_epsilon": 1e-12, "bert.attention.causal": False, "bert.pooling_type": 1,
                "tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": ["[PAD]", "[CLS]", "[SEP]", "a"]}
    table = {"token_embd.weight": (F32, (4, 8)), "position_embd.weight": (F32, (8, 8)),
             "token_types.weight": (F32, (2, 8))}
    for name in ("token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm"):
        table |= {name + ".weight": (F32, (8,)), name + ".bias": (F32, (8,))}
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down"):
        table |= {f"blk.0.{name}.weight": (F32, (8, 8)), f"blk.0.{name}.bias": (F32, (8,))}
    return metadata, table


def safetensors(tensors, metadata=None, pad=True):
    sizes = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8, "F8_E4M3": 1}
    header, at = ({"__metadata__": metadata} if metadata else {}), 0
    for name, (kind, shape) in tensors.items():
        n = sizes[kind]
        for d in shape:
            n *= d
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + n]}
        at += n
    packed = json.dumps(header, separators=(",", ":")).encode()
    packed += b" " * (-len(packed) % 8 if pad else 1 - len(packed) % 2)
    return struct.pack("<Q", len(packed)) + packed + b"\0" * at


def safetensors_files():
    yield "decoder", safetensors({"model.embed_tokens.weight": ("F32", (4, 4)), "model.norm.weight": ("BF16", (4,)),
                                  "model.layers.0.mlp.experts.1.up_proj.weight": ("F16", (2, 4))}, {"format": "pt"})
    yield "encoder", safetensors({"embeddings.position_ids": ("I64", (1, 4)),
                                  "bert.encoder.layer.0.attention.self.query.weight": ("F32", (2, 2)),
                                  "embeddings.LayerNorm.gamma": ("F32", (2,))})
    yield "unaligned", safetensors({"a": ("F16", (3,)), "b": ("F32", (2,)), "s": ("F32", ())}, pad=False)
    yield "unread", safetensors({"a": ("F8_E4M3", (2, 2)), "b": ("F32", (0, 2)), "c": ("F32", (1,))})
    yield "empty", safetensors({})


def write(target, files):
    folder = os.path.join(FUZZ, target)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name, content in files:
        with open(os.path.join(folder, name), "wb") as f:
            f.write(content)


def hf_configs():
    tiny = os.path.join(REPO, "testdata", "tiny")
    for name in sorted(os.listdir(tiny)):
        for file in ("config.json", "generation_config.json", "1_Pooling/config.json"):
            path = os.path.join(tiny, name, file)
            if not os.path.exists(path) or (file != "config.json" and name not in ("bert", "llama")):
                continue
            with open(path, "rb") as f:
                yield f"{name}-{file.replace('/', '-')}", json.dumps(json.load(f), separators=(",", ":")).encode()
    yield "templates", json.dumps({"chat_template": [{"name": "default", "template": "{{ x }}"}]}).encode()


if __name__ == "__main__":
    write("gguf_fuzz", gguf_models())
    write("safetensors_fuzz", safetensors_files())
    write("hf_config_fuzz", hf_configs())

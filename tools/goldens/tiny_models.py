"""Writes testdata/tiny/<name>: random models in Hugging Face form with reference logits.

Usage: tiny_models.py [NAME ...]      (needs torch, transformers, safetensors)

Each folder is what `save_pretrained` writes, with config.json put back into the keys that published
checkpoints carry (rope_theta, rope_scaling, torch_dtype); `llama3-v5` keeps the newer
`rope_parameters` form. reference.safetensors holds `input_ids` I32 [T] and `logits` F32 [T, V] of a
float32 forward with eager attention (BERT: `last_hidden_state` [T, D] and `embedding` [D]).
The seed is searched until small weight noise cannot flip an expert choice, which would make the
reference depend on summation order; metadata `noise_1e-6` is the largest logit change under a
relative weight noise of 1e-6, and `float64_difference` the distance to a float64 forward.
"""

import copy
import json
import os
import shutil
import sys

import torch
import transformers as tf

import common

T = 40
V = 256
BASE = dict(
    vocab_size=V,
    hidden_size=64,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=128,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)
LLAMA3_ROPE = dict(
    rope_type="llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=64,
    rope_theta=500000.0,
)
YARN = dict(
    rope_type="yarn",
    factor=4.0,
    original_max_position_embeddings=4096,
    beta_fast=32,
    beta_slow=1,
    mscale=1.0,
    mscale_all_dim=1.0,
    rope_theta=10000.0,
)
MLA = dict(
    vocab_size=V,
    hidden_size=64,
    intermediate_size=64,
    num_attention_heads=2,
    num_key_value_heads=2,
    kv_lora_rank=32,
    qk_nope_head_dim=16,
    qk_rope_head_dim=16,
    v_head_dim=16,
    n_routed_experts=8,
    n_shared_experts=1,
    num_experts_per_tok=2,
    moe_intermediate_size=16,
    first_k_dense_replace=1,
    max_position_embeddings=16384,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
    tie_word_embeddings=False,
)


def llama3(**extra):
    return tf.LlamaConfig(
        **{
            **BASE,
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "tie_word_embeddings": False,
            "rope_parameters": LLAMA3_ROPE,
            **extra,
        }
    )


# name: (config, save dtype, largest shard)
MODELS = {
    "llama": lambda: tf.LlamaConfig(**BASE, tie_word_embeddings=True),
    "llama-f16": lambda: tf.LlamaConfig(**BASE, tie_word_embeddings=True),
    "llama3": llama3,
    "llama3-v5": lambda: llama3(num_hidden_layers=1),
    # heads narrower than D / H, as in Mistral Nemo
    "mistral": lambda: tf.MistralConfig(
        **{**BASE, "num_attention_heads": 2, "num_key_value_heads": 1},
        head_dim=16,
        sliding_window=8,
        tie_word_embeddings=False,
    ),
    "qwen2": lambda: tf.Qwen2Config(
        **BASE,
        tie_word_embeddings=True,
        use_sliding_window=False,
        rope_parameters=dict(rope_type="default", rope_theta=1e6),
    ),
    "qwen2-bf16": lambda: tf.Qwen2Config(
        **BASE,
        tie_word_embeddings=False,
        use_sliding_window=False,
        rope_parameters=dict(rope_type="default", rope_theta=1e6),
    ),
    # D = 96, not a power of two; heads wider than D / H, as in the published models
    "qwen3": lambda: tf.Qwen3Config(
        **{
            **BASE,
            "hidden_size": 96,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "intermediate_size": 32,
        },
        head_dim=32,
        tie_word_embeddings=True,
        use_sliding_window=False,
        rope_parameters=dict(rope_type="default", rope_theta=1e6),
    ),
    "gemma2": lambda: tf.Gemma2Config(
        **{**BASE, "hidden_size": 32, "num_hidden_layers": 4},
        head_dim=16,
        sliding_window=8,
        query_pre_attn_scalar=24,
        attn_logit_softcapping=5.0,
        final_logit_softcapping=6.0,
    ),
    "gemma3": lambda: tf.Gemma3TextConfig(
        **{**BASE, "hidden_size": 32, "num_hidden_layers": 4, "num_key_value_heads": 1},
        head_dim=16,
        sliding_window=8,
        query_pre_attn_scalar=24,
        layer_types=[
            "sliding_attention",
            "sliding_attention",
            "full_attention",
            "sliding_attention",
        ],
        rope_parameters=dict(
            full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e6),
            sliding_attention=dict(rope_type="default", rope_theta=1e4),
        ),
    ),
    # as DeepSeek-V2-Lite: no query compression, plain top-k over softmax scores
    "deepseek_v2": lambda: tf.DeepseekV2Config(
        **{**MLA, "num_hidden_layers": 2, "n_shared_experts": 2},
        q_lora_rank=None,
        n_group=1,
        topk_group=1,
        topk_method="greedy",
        routed_scaling_factor=1.0,
        norm_topk_prob=False,
    ),
    # as DeepSeek-V2: query compression, groups by their best expert, scaled experts
    "deepseek_v2-groups": lambda: tf.DeepseekV2Config(
        # more experts than groups: with as many, the best experts always lie in the best groups
        **{**MLA, "num_experts_per_tok": 3},
        num_hidden_layers=2,
        q_lora_rank=32,
        n_group=4,
        topk_group=2,
        topk_method="group_limited_greedy",
        routed_scaling_factor=16.0,
        norm_topk_prob=False,
        rope_parameters={**YARN, "mscale": 0.707, "mscale_all_dim": 0.5},
    ),
    "deepseek_v3": lambda: tf.DeepseekV3Config(
        **MLA,
        num_hidden_layers=3,
        q_lora_rank=32,
        n_group=4,
        topk_group=2,
        routed_scaling_factor=2.5,
        norm_topk_prob=True,
        num_nextn_predict_layers=0,
        rope_parameters=YARN,
        rope_interleave=True,
    ),
    "bert": lambda: bert_config(num_hidden_layers=2, num_attention_heads=4),
    "bert-cls": lambda: bert_config(num_hidden_layers=1, num_attention_heads=2),  # as bge-small
}
SAVE_DTYPE = {"llama-f16": torch.float16, "qwen2-bf16": torch.bfloat16}
SHARD = {"mistral": "90KB"}
KEEP_V5_CONFIG = {"llama3-v5"}


def bert_config(**shape):
    return tf.BertConfig(
        **shape,
        vocab_size=V,
        hidden_size=64,
        intermediate_size=96,
        max_position_embeddings=64,
        type_vocab_size=2,
        hidden_act="gelu",
        pad_token_id=0,
    )


def forward(model, ids, dtype):
    model = copy.deepcopy(model).to(dtype).eval()
    with torch.no_grad():
        if model.config.model_type == "bert":
            return model(input_ids=ids).last_hidden_state[0]
        return model(input_ids=ids, use_cache=False).logits[0]


def build(name, seed):
    config = MODELS[name]()
    config._attn_implementation = "eager"
    cls = tf.BertModel if config.model_type == "bert" else tf.AutoModelForCausalLM
    model = (
        cls(config, add_pooling_layer=False)
        if cls is tf.BertModel
        else cls.from_config(
            config,
            attn_implementation="eager",
            experts_implementation="eager" if "deepseek" in name else None,
        )
    )
    common.randomise(model, seed)
    if name in SAVE_DTYPE:  # the reference runs on rounded weights, but exact rotation frequencies
        for p in model.parameters():
            p.data = p.data.to(SAVE_DTYPE[name]).to(torch.float32)
    if model.config.tie_word_embeddings and hasattr(model, "tie_weights"):
        model.tie_weights()
    return model


def noise_effect(model, ids, base, relative, tries):
    """Largest output change over `tries` models whose weights carry relative noise."""
    worst = 0.0
    for k in range(tries):
        noisy = copy.deepcopy(model)
        g = torch.Generator().manual_seed(1000 + k)
        with torch.no_grad():
            for p in noisy.parameters():
                p.mul_(1 + relative * torch.randn(p.shape, generator=g))
        worst = max(worst, (forward(noisy, ids, torch.float64) - base).abs().max().item())
    return worst


def classic_config(config):
    """config.json as published checkpoints have it: the keys that transformers used before 5."""
    rope = config.pop("rope_parameters", None)
    if "dtype" in config:
        config["torch_dtype"] = config.pop("dtype")
    if config["model_type"].startswith("deepseek"):  # keys of the published files, unread here
        v3 = config["model_type"] == "deepseek_v3"
        config["scoring_func"] = "sigmoid" if v3 else "softmax"
        config["moe_layer_freq"] = 1
        if v3:
            config["topk_method"] = "noaux_tc"
    if not rope:
        return config
    if "full_attention" in rope:
        full, local = rope["full_attention"], rope["sliding_attention"]
        config["rope_theta"] = full["rope_theta"]
        if config["model_type"] == "gemma3_text":
            config["rope_local_base_freq"] = local["rope_theta"]
        rope = full
    config["rope_theta"] = rope.get("rope_theta", 10000.0)
    scaling = {k: v for k, v in rope.items() if k != "rope_theta"}
    if scaling.get("rope_type", "default") == "default":
        config["rope_scaling"] = None
    else:
        if config["model_type"].startswith("deepseek"):  # these were published with `type`
            scaling["type"] = scaling.pop("rope_type")
        config["rope_scaling"] = scaling
    return config


def reload_difference(folder, ids, logits):
    """Loads the folder as a reader would and compares: the rewritten config must mean the same."""
    cls = tf.AutoModel if "bert" in folder else tf.AutoModelForCausalLM
    model = cls.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return (forward(model, ids, torch.float32) - logits).abs().max().item()


def write(name):
    for seed in range(1, 200):
        model = build(name, seed)
        g = torch.Generator().manual_seed(seed)
        ids = torch.randint(3, V, (1, T), generator=g)
        ids[0, 0] = 1
        exact = forward(model, ids, torch.float64)
        moe = "deepseek" in name
        if not moe or noise_effect(model, ids, exact, 1e-4, 6) < 0.1:
            break
    else:
        raise SystemExit(f"{name}: no stable seed")
    out = forward(model, ids, torch.float32)
    effect = noise_effect(model, ids, exact, 1e-6, 3)

    folder = os.path.join(common.TESTDATA, "tiny", name)
    shutil.rmtree(folder, ignore_errors=True)
    model.to(SAVE_DTYPE.get(name, torch.float32)).save_pretrained(
        folder, max_shard_size=SHARD.get(name, "1GB")
    )
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    if name not in KEEP_V5_CONFIG:
        config = classic_config(config)
    common.save_json(path, config)

    tensors = {"input_ids": ids[0].to(torch.int32).numpy()}
    if "bert" in name:
        pooled = out[0] if name == "bert-cls" else out.mean(0)
        tensors["last_hidden_state"] = out.numpy()
        tensors["embedding"] = (pooled / pooled.norm()).numpy()
        write_pooling(folder, "cls" if name == "bert-cls" else "mean")
    else:
        tensors["logits"] = out.numpy()
    meta = common.provenance(__file__, seed, "torch", "transformers", "safetensors")
    meta["noise_1e-6"] = f"{effect:.3g}"
    meta["float64_difference"] = f"{(out - exact).abs().max().item():.3g}"
    common.save_tensors(os.path.join(folder, "reference.safetensors"), tensors, meta)
    again = reload_difference(folder, ids, out)
    size = sum(os.path.getsize(os.path.join(r, f)) for r, _, fs in os.walk(folder) for f in fs)
    print(
        f"{name:20s} seed {seed} std {out.std():.2f} f64 {meta['float64_difference']} noise "
        f"{meta['noise_1e-6']} reload {again:.2g} bytes {size}"
    )
    assert again < 2e-5, name


def write_pooling(folder, mode):
    """The sentence-transformers files that say how hidden states become one vector."""
    common.save_json(
        os.path.join(folder, "modules.json"),
        [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {
                "idx": 1,
                "name": "1",
                "path": "1_Pooling",
                "type": "sentence_transformers.models.Pooling",
            },
            {
                "idx": 2,
                "name": "2",
                "path": "2_Normalize",
                "type": "sentence_transformers.models.Normalize",
            },
        ],
    )
    common.save_json(
        os.path.join(folder, "1_Pooling", "config.json"),
        {
            "word_embedding_dimension": 64,
            "pooling_mode_cls_token": mode == "cls",
            "pooling_mode_mean_tokens": mode == "mean",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    )


if __name__ == "__main__":
    print(common.versions("torch", "transformers", "safetensors"))
    torch.set_num_threads(1)
    for model_name in sys.argv[1:] or MODELS:
        write(model_name)

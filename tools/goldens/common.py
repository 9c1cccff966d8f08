"""Helpers shared by the golden generators: provenance, deterministic initialisation, writing.

Every golden names its generator, the versions of the libraries that computed it and its seed, so
that a reader can tell a changed reference from a changed program.
"""

import importlib.metadata
import json
import os

import numpy as np

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TESTDATA = os.path.join(REPO, "testdata")


def versions(*packages):
    """`name==version` for each installed package of `packages`."""
    return " ".join(f"{p}=={importlib.metadata.version(p)}" for p in packages)


def provenance(generator, seed, *packages):
    """The strings that each golden carries. All values are text, as safetensors demands."""
    return {
        "generator": "tools/goldens/" + os.path.basename(generator),
        "versions": versions(*packages),
        "seed": str(seed),
    }


def save_tensors(path, tensors, metadata):
    """Writes numpy arrays as safetensors with `metadata` (text to text).

    By hand: the library writes metadata in random order, and goldens should repeat bit for bit.
    """
    names = {"int64": "I64", "int32": "I32", "uint8": "U8", "bool": "BOOL", "float32": "F32"}
    order = sorted(tensors, key=lambda k: (-tensors[k].itemsize, k))  # wide first: aligned
    header = {"__metadata__": {k: str(v) for k, v in sorted(metadata.items())}}
    end = 0
    for k in order:
        t = tensors[k]
        begin, end = end, end + t.nbytes
        header[k] = {
            "dtype": names[str(t.dtype)],
            "shape": list(t.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for k in order:
            f.write(np.ascontiguousarray(tensors[k]).data)


def save_json(path, value, compact=False):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        if compact:
            json.dump(value, f, ensure_ascii=True, separators=(",", ":"))
        else:
            json.dump(value, f, ensure_ascii=True, indent=1)
        f.write("\n")


def randomise(model, seed):
    """Fills every parameter so that each one matters to the output, norms and biases included.

    Matrices get 1/sqrt(fan_in) (twice that for query and key projections, so that attention is
    peaked and a wrong mask or rotation shows), norms vary about their neutral value, and the
    embedding is large enough for logits to spread over several units.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)

    def normal(t):
        return torch.randn(t.shape, generator=generator, dtype=torch.float32)

    tied = getattr(model.config, "tie_word_embeddings", False)
    gemma = model.config.model_type.startswith("gemma")
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            if name.endswith("bias") or name.endswith("correction_bias"):
                p.copy_(0.3 * normal(p))
            elif p.dim() == 1:  # norm weights; Gemma stores the distance from one
                p.copy_((0.0 if gemma else 1.0) + 0.2 * normal(p))
            elif "embed" in name:
                p.copy_((0.3 if gemma or tied else 1.0) * normal(p))
            elif "lm_head" in name:
                p.copy_(0.25 * normal(p))
            else:
                peaked = any(s in name for s in ("q_proj", "k_proj", "q_b_proj", "query", "key"))
                gain = 1.6 if peaked else 1.0
                p.copy_(gain * p.shape[-1] ** -0.5 * normal(p))
        for name, b in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                b.copy_(0.1 * normal(b))

"""How far llama.cpp is from the float32 reference: KL divergence over the tokens of a logits file.

Usage: llama_cpp_kl.py MODEL.gguf REFERENCE.safetensors [--flash-attn] [--n-batch N]

REFERENCE is the output of reference_logits.py. Prints one JSON object. `mean_kl` is KL(reference
|| candidate) in nats, averaged over positions, computed in double; `top1_agreement` the share of
positions with the same most likely id; `cross_entropy` that of the candidate on the true next
tokens (`reference_cross_entropy` the reference's own). `mean_kl_after_first` leaves out position
0, where a lone first token can have activations so large that rounding them changes everything.
"""

import argparse
import json
import os

import llama_cpp
import numpy as np
from safetensors import safe_open

CONTEXT = 2048
CHUNK = 100


def log_softmax(x):
    x = x.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def compare(reference, candidate_rows, tokens):
    """Sums over positions, a chunk at a time. `candidate_rows(lo, hi)` gives float32 [hi-lo, V]."""
    total = {"kl": [], "same": [], "ce": [], "ref_ce": []}
    for lo in range(0, len(tokens), CHUNK):
        hi = min(lo + CHUNK, len(tokens))
        p, q = log_softmax(reference[lo:hi]), log_softmax(candidate_rows(lo, hi))
        total["kl"] += list((np.exp(p) * (p - q)).sum(-1))
        total["same"] += list(p.argmax(-1) == q.argmax(-1))
        for i in range(lo, min(hi, len(tokens) - 1)):
            total["ce"].append(-q[i - lo, tokens[i + 1]])
            total["ref_ce"].append(-p[i - lo, tokens[i + 1]])
    return {
        "positions": len(tokens),
        "mean_kl": float(np.mean(total["kl"])),
        "mean_kl_after_first": float(np.mean(total["kl"][1:])),
        "p99_kl": float(np.quantile(total["kl"], 0.99)),
        "max_kl": float(np.max(total["kl"])),
        "top1_agreement": float(np.mean(total["same"])),
        "cross_entropy": float(np.mean(total["ce"])),
        "reference_cross_entropy": float(np.mean(total["ref_ce"])),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("reference")
    parser.add_argument("--flash-attn", action="store_true")
    parser.add_argument("--n-batch", type=int, default=512)
    args = parser.parse_args()

    llm = llama_cpp.Llama(
        args.model,
        n_ctx=CONTEXT,
        n_threads=2,
        n_threads_batch=2,
        logits_all=True,
        n_batch=args.n_batch,
        flash_attn=args.flash_attn,
        verbose=False,
    )
    with safe_open(args.reference, "np") as f:
        tokens = f.get_tensor("tokens").tolist()
        llm.eval(tokens)
        result = compare(f.get_slice("logits"), lambda lo, hi: llm.scores[lo:hi], tokens)
    print(
        json.dumps(
            {
                "model": os.path.basename(args.model),
                "llama_cpp_python": llama_cpp.__version__,
                "n_batch": args.n_batch,
                "flash_attn": args.flash_attn,
                **result,
            }
        )
    )


if __name__ == "__main__":
    main()

"""Full float32 logits of a GGUF model over the prose, the truth for quantised inference.

Usage: reference_logits.py MODEL.gguf OUT.safetensors [--tokens N] [--golden GOLDEN.json]

transformers loads the GGUF with its weights dequantised exactly and runs one float32 forward with
eager attention over the first N (2,000) tokens of testdata/text/prose.txt as one sequence, with BOS
first where the model's tokenizer asks for it. OUT holds `tokens` I32 [T] and `logits` F32 [T, V];
GOLDEN (small, committed) holds the tokens, the log-probability of each true next token (T - 1) and
the most likely id (T). No random numbers are involved.
"""

import argparse
import os
import time

import torch
import transformers

import common


def tokens_of_prose(gguf, count):
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        os.path.dirname(gguf), gguf_file=os.path.basename(gguf)
    )
    with open(os.path.join(common.TESTDATA, "text", "prose.txt"), encoding="utf-8") as f:
        ids = tokenizer(f.read())["input_ids"]
    assert len(ids) >= count, len(ids)
    return ids[:count]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--golden")
    args = parser.parse_args()

    ids = tokens_of_prose(args.model, args.tokens)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        os.path.dirname(args.model),
        gguf_file=os.path.basename(args.model),
        dtype=torch.float32,
        attn_implementation="eager",
    ).eval()
    start = time.time()
    with torch.no_grad():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    seconds = time.time() - start

    rows = []  # log_softmax a few rows at a time: the whole would double the memory
    for lo in range(0, len(ids), 100):
        log_p = torch.log_softmax(logits[lo : lo + 100].double(), -1)
        rows += [
            log_p[i, ids[lo + i + 1]].item() for i in range(len(log_p)) if lo + i + 1 < len(ids)
        ]
    cross_entropy = -sum(rows) / len(rows)
    meta = common.provenance(__file__, "none", "torch", "transformers", "gguf")
    meta["model"] = os.path.basename(args.model)
    if args.golden:
        common.save_json(
            args.golden,
            {
                **meta,
                "text": "testdata/text/prose.txt",
                "cross_entropy": round(cross_entropy, 6),
                "tokens": ids,
                "next_log_prob": [round(x, 5) for x in rows],
                "argmax": logits.argmax(-1).tolist(),
            },
            compact=True,
        )
    common.save_tensors(
        args.out,
        {"tokens": torch.tensor(ids, dtype=torch.int32).numpy(), "logits": logits.numpy()},
        meta,
    )
    print(meta, "first ids", ids[:5], f"cross entropy {cross_entropy:.4f} forward {seconds:.1f} s")


if __name__ == "__main__":
    main()

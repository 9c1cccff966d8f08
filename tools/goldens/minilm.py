"""Writes testdata/golden/all-MiniLM-L6-v2.json: embeddings of a few texts by the real model.

Usage: minilm.py MODEL_DIR      (needs torch, transformers, tokenizers)

A case holds the text, its ids (with [CLS] and [SEP], cut to 256 as the model's card says) and the
embedding: mean over all positions of a float32 forward with eager attention, divided by its length.
Texts run one at a time, so no padding takes part. No random numbers are involved.
"""

import os
import sys

import tokenizers
import torch
import transformers

import common

TEXTS = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "What is the liability limit for a lost debit card?",
    "a",
    "",
    "Caf\u00e9 na\u00efve \u4f60\u597d \U0001f600 UPPER lower 12345",
]
LONGEST = 256


def main(folder):
    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.enable_truncation(LONGEST)
    tokenizer.no_padding()
    model = transformers.AutoModel.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    with open(os.path.join(common.TESTDATA, "text", "prose.txt"), encoding="utf-8") as f:
        prose = f.read()
    cases = []
    for text in [*TEXTS, prose[:600], prose[:4000]]:
        ids = tokenizer.encode(text).ids
        with torch.no_grad():
            mean = model(torch.tensor([ids])).last_hidden_state[0].mean(0)
        embedding = (mean / mean.norm()).tolist()
        cases.append({"text": text, "ids": ids, "embedding": [round(x, 7) for x in embedding]})
    meta = common.provenance(__file__, "none", "torch", "transformers", "tokenizers")
    path = os.path.join(common.TESTDATA, "golden", "all-MiniLM-L6-v2.json")
    common.save_json(path, {**meta, "longest": LONGEST, "cases": cases}, compact=True)
    e = torch.tensor([c["embedding"] for c in cases])
    print(meta["versions"], [len(c["ids"]) for c in cases], (e @ e.T)[0].tolist())


if __name__ == "__main__":
    main(sys.argv[1])

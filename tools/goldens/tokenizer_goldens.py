"""Writes testdata/tokenizer/<name>.safetensors: the ids of each string of nasty.json.

Usage: tokenizer_goldens.py MODELS_DIR     (needs tokenizers, gguf, sentencepiece, llama-cpp-python)

Row i of a ragged pair (`ids`, `offsets`) is ids[offsets[i]:offsets[i + 1]].
  ids, offsets             string i; text that spells a special token becomes it; nothing added
  plain_index, plain_*     the strings whose ids differ when control tokens in text stay text (a
                           user's text; user-defined tokens that are not control still match)
  llama_cpp_index          the strings that llama.cpp tokenises otherwise (GGUF vocabularies only)
Metadata `prefix` and `suffix` are the ids that add_special_tokens=True puts around `ids`; `notes`
says what was decided where implementations disagree. decoded.json holds, for each tokenizer, the
strings that decode (special tokens skipped) to another text, and that text.

The vocabularies and merges of SmolLM2, Qwen2.5 and Gemma come from their GGUF files; the steps
around them are those of the published tokenizer.json files, which a GGUF does not carry in full.
"""

import json
import os
import sys

import gguf
import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as pb
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

import common

QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CONTROL, USER_DEFINED = 3, 4
NOTES = {
    "smollm2": "Digits are split off one by one before the GPT-2 pattern runs, as in the published "
    "tokenizer.json and in llama.cpp. transformers 5.24 leaves that step out when it reads "
    "a GGUF and is wrong for text like two spaces and a digit.",
    "qwen2.5": "The published tokenizer.json normalises to NFC first; llama.cpp and transformers' "
    "GGUF reader do not and are wrong on decomposed text. llama.cpp also takes </s>, an "
    "ordinary token of this vocabulary, for a control token.",
    "gemma3": "Made with the sentencepiece library on a model rebuilt from the GGUF. transformers "
    "(merges instead of longest user-defined match) differs for runs of more than 31 spaces; "
    "llama.cpp differs for a literal U+2581, which sentencepiece cannot tell from a space, "
    "and takes </s>, a user-defined HTML tag here, for a control token.",
}


def read_gguf(path):
    fields = gguf.GGUFReader(path).fields
    return {
        k.split(".")[-1]: fields[k].contents() for k in fields if k.startswith("tokenizer.ggml.")
    }


def byte_level(vocabulary, normalizer, pre):
    tokens, types = vocabulary["tokens"], vocabulary["token_type"]
    t = Tokenizer(
        models.BPE(
            {s: i for i, s in enumerate(tokens)},
            [tuple(m.split(" ")) for m in vocabulary["merges"]],
        )
    )
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer, t.decoder = pre, decoders.ByteLevel()
    t.add_special_tokens([s for s, k in zip(tokens, types) if k == CONTROL])
    t.add_tokens(
        [AddedToken(s, normalized=False) for s, k in zip(tokens, types) if k == USER_DEFINED]
    )
    return t


def smollm2(folder):
    v = read_gguf(os.path.join(folder, "smollm2-135m-instruct.gguf"))
    return byte_level(
        v,
        None,
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        ),
    )


def qwen2(folder):
    v = read_gguf(os.path.join(folder, "qwen2.5-coder-0.5b-instruct.gguf"))
    return byte_level(
        v,
        normalizers.NFC(),
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(QWEN2_PATTERN), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        ),
    )


class Gemma:
    """The sentencepiece library on the GGUF's pieces, control tokens cut out of the text first."""

    def __init__(self, folder):
        v = read_gguf(os.path.join(folder, "gemma-3-270m.gguf"))
        self.tokens, self.bos = v["tokens"], v["bos_token_id"]
        model = pb.ModelProto()
        model.trainer_spec.model_type = pb.TrainerSpec.BPE
        model.trainer_spec.byte_fallback = True
        model.trainer_spec.unk_id, model.trainer_spec.unk_piece = v["unknown_token_id"], "<unk>"
        model.normalizer_spec.name = "identity"
        model.normalizer_spec.add_dummy_prefix = False
        model.normalizer_spec.remove_extra_whitespaces = False
        model.normalizer_spec.escape_whitespaces = True
        for token, score, kind in zip(v["tokens"], v["scores"], v["token_type"]):
            piece = token.replace(" ", "\u2581") if kind == USER_DEFINED else token
            kind = 2 if token == "<unk>" else kind  # the library wants it marked as unknown
            model.pieces.add(piece=piece, score=score, type=kind)
        self.sp = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
        control = [t for t, k in zip(v["tokens"], v["token_type"]) if k == CONTROL]
        self.control = Tokenizer(models.BPE())  # only to cut: leftmost, longest first
        self.control.add_special_tokens(control)
        self.id = {t: i for i, t in enumerate(v["tokens"])}
        self.encode_special_tokens = False

    def ids(self, text):
        if self.encode_special_tokens:
            return self.sp.encode(text)
        out, at = [], 0
        cuts = self.control.encode(text, add_special_tokens=False)
        for token, (lo, hi) in zip(cuts.tokens, cuts.offsets):
            out += self.sp.encode(text[at:lo]) + [self.id[token]]
            at = hi
        return out + self.sp.encode(text[at:])

    def text(self, ids):
        return self.sp.decode([i for i in ids if not self.sp.is_control(i)])


class Plain:
    """A tokenizers.Tokenizer behind the same two functions."""

    def __init__(self, tokenizer):
        self.t = tokenizer
        self.t.no_truncation()
        self.t.no_padding()

    @property
    def encode_special_tokens(self):
        return self.t.encode_special_tokens

    @encode_special_tokens.setter
    def encode_special_tokens(self, on):
        self.t.encode_special_tokens = on

    def ids(self, text):
        return self.t.encode(text, add_special_tokens=False).ids

    def full(self, text):
        return self.t.encode(text, add_special_tokens=True).ids

    def text(self, ids):
        return self.t.decode(ids, skip_special_tokens=True)


def ragged(rows, prefix=""):
    flat = [i for row in rows for i in row]
    return {
        prefix + "ids": np.array(flat, np.int32),
        prefix + "offsets": np.cumsum([0, *map(len, rows)]).astype(np.int32),
    }


def affixes(t, strings, rows):
    """The constant ids before and after each row; fails if some string has others."""
    if isinstance(t, Gemma):
        return [t.bos], []
    empty = t.full("a")
    k = len(t.ids("a"))
    at = next(i for i in range(len(empty)) if empty[i : i + k] == t.ids("a"))
    prefix, suffix = empty[:at], empty[at + k :]
    for s, row in zip(strings, rows):
        assert t.full(s) == prefix + row + suffix, repr(s)
    return prefix, suffix


def llama_cpp_differences(path, strings, rows, plain):
    import llama_cpp

    llm = llama_cpp.Llama(path, vocab_only=True, verbose=False)
    out = []
    for i, s in enumerate(strings):
        cases = ((True, rows[i]), (False, plain[i]))
        if any(llm.tokenize(s.encode(), add_bos=False, special=sp) != r for sp, r in cases):
            out.append(i)
    return out


def write(name, t, strings, meta, gguf_path=None):
    t.encode_special_tokens = True
    plain = [t.ids(s) for s in strings]
    t.encode_special_tokens = False
    rows = [t.ids(s) for s in strings]
    index = [i for i in range(len(strings)) if plain[i] != rows[i]]
    prefix, suffix = affixes(t, strings, rows)
    tensors = {
        **ragged(rows),
        "plain_index": np.array(index, np.int32),
        **ragged([plain[i] for i in index], "plain_"),
    }
    meta = {
        **meta,
        "prefix": json.dumps(prefix),
        "suffix": json.dumps(suffix),
        "strings": "testdata/tokenizer/nasty.json",
    }
    line = (
        f"{name}: {len(tensors['ids'])} ids, {len(index)} differ plain, affixes {prefix} {suffix}"
    )
    if name in NOTES:
        meta["notes"] = NOTES[name]
    if gguf_path:
        other = llama_cpp_differences(gguf_path, strings, rows, plain)
        tensors["llama_cpp_index"] = np.array(other, np.int32)
        line += f", llama.cpp differs for {len(other)}: {[strings[i][:12] for i in other[:200:10]]}"
    common.save_tensors(
        os.path.join(common.TESTDATA, "tokenizer", name + ".safetensors"), tensors, meta
    )
    print(line)
    texts = [t.text(row) for row in rows]
    changed = [i for i in range(len(strings)) if texts[i] != strings[i]]
    return {"index": changed, "text": [texts[i] for i in changed]}


def main(folder):
    base = os.path.join(common.TESTDATA, "tokenizer")
    with open(os.path.join(base, "nasty.json"), encoding="utf-8") as f:
        strings = json.load(f)["strings"]
    meta = common.provenance(
        __file__, "none", "tokenizers", "sentencepiece", "gguf", "llama-cpp-python"
    )
    print(meta["versions"])
    decoded = {}
    for name, make, file in [
        ("smollm2", smollm2, "smollm2-135m-instruct.gguf"),
        ("qwen2.5", qwen2, "qwen2.5-coder-0.5b-instruct.gguf"),
        ("gemma3", Gemma, "gemma-3-270m.gguf"),
    ]:
        t = make(folder)
        t = t if isinstance(t, Gemma) else Plain(t)
        decoded[name] = write(name, t, strings, meta, os.path.join(folder, file))
    minilm = os.path.join(folder, "all-MiniLM-L6-v2", "tokenizer.json")
    decoded["minilm"] = write("minilm", Plain(Tokenizer.from_file(minilm)), strings, meta)
    for name in sorted(os.listdir(base)):
        path = os.path.join(base, name, "tokenizer.json")
        if os.path.exists(path):
            decoded[name] = write(name, Plain(Tokenizer.from_file(path)), strings, meta)
    common.save_json(
        os.path.join(base, "decoded.json"), {**meta, "tokenizers": decoded}, compact=True
    )


if __name__ == "__main__":
    main(sys.argv[1])

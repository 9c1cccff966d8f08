"""Trains the small tokenizers under testdata/tokenizer/<name>/tokenizer.json.

Usage: train_tokenizers.py       (needs tokenizers, sentencepiece)

Each has the pipeline of a published family with a vocabulary of about a thousand, trained on
testdata/text/prose.txt and nasty.json. Training is not promised to repeat bit for bit between
versions of the library: the committed files are the truth and tokenizer_goldens.py reads them.
"""

import io
import json
import os

import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import trainers

import common

LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BYTES = [f"<0x{b:02X}>" for b in range(256)]


def training_text():
    with open(os.path.join(common.TESTDATA, "text", "prose.txt"), encoding="utf-8") as f:
        prose = f.read().splitlines()
    with open(os.path.join(common.TESTDATA, "tokenizer", "nasty.json"), encoding="utf-8") as f:
        nasty = [s for s in json.load(f)["strings"] if len(s) < 200]
    return prose * 3 + nasty


def save(name, tokenizer, edit=lambda d: None):
    d = json.loads(tokenizer.to_str())
    edit(d)
    folder = os.path.join(common.TESTDATA, "tokenizer", name)
    common.save_json(os.path.join(folder, "tokenizer.json"), d, compact=True)
    again = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    print(name, again.get_vocab_size(), os.path.getsize(os.path.join(folder, "tokenizer.json")))


def byte_level(text, specials, pre, size=1200):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(
        text,
        trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=specials,
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    return t


def llama3(text):
    """Llama 3: its regular expression, then whole-word look-up before merging (`ignore_merges`)."""
    pre = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA3_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    t = byte_level(text, [], pre)
    specials = [
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
    ]
    t.add_special_tokens(specials)
    bos = t.token_to_id(specials[0])
    t.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=f"{specials[0]} $A", special_tokens=[(specials[0], bos)]
            ),
        ]
    )

    def edit(d):
        # Words that no merge builds: only ignore_merges' look-up of whole words can find them. The
        # merges that made them go, as long as no other merge needs the word as a part.
        d["model"]["ignore_merges"] = True
        merges = [tuple(m) for m in d["model"]["merges"]]
        parts = {p for m in merges for p in m}
        lonely = [m for m in merges if "".join(m) not in parts and len("".join(m)) > 5][:60]
        d["model"]["merges"] = [list(m) for m in merges if m not in set(lonely)]

    save("llama3-style", t, edit)


def gpt2(text):
    t = byte_level(text, ["<|endoftext|>"], pre_tokenizers.ByteLevel(add_prefix_space=False))
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    save("gpt2-style", t)


def sentencepiece_bpe(text):
    """Llama 2 in both of its published forms: old (normalizer) and new (Metaspace, first only)."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    t.train_from_iterator(
        text,
        trainers.BpeTrainer(
            vocab_size=1000,
            special_tokens=["<unk>", "<s>", "</s>"] + BYTES,
            limit_alphabet=150,
            show_progress=False,
        ),
    )
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    base = json.loads(t.to_str())
    base["added_tokens"] = [a for a in base["added_tokens"] if a["content"] not in BYTES]

    def old(d):
        d.update(json.loads(json.dumps(base)))
        d["normalizer"] = {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "\u2581"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
            ],
        }
        d["pre_tokenizer"] = None
        d["decoder"] = {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        }

    def new(d):
        old(d)
        d["normalizer"] = None
        d["pre_tokenizer"] = {
            "type": "Metaspace",
            "replacement": "\u2581",
            "prepend_scheme": "first",
            "split": False,
        }

    save("llama2-normalizer", t, old)
    save("llama2-metaspace", t, new)


def unigram(text):
    """Unigram as T5 and XLM-R have it, with NFKC in place of their large normalisation table."""
    common_text = [s for s in text if s and all("\t" <= c < "\u0460" for c in s)]
    model = io.BytesIO()  # the sentencepiece trainer: that of tokenizers overflows on this text
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(common_text),
        model_writer=model,
        model_type="unigram",
        vocab_size=900,
        normalization_rule_name="nfkc",
        character_coverage=0.999,
        hard_vocab_limit=False,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        pad_piece="<pad>",
        num_threads=1,
        minloglevel=2,
    )
    sp = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [(sp.id_to_piece(i), sp.get_score(i)) for i in range(sp.get_piece_size())]
    t = Tokenizer(models.Unigram(pieces, unk_id=2, byte_fallback=False))
    t.add_special_tokens(["<pad>", "</s>", "<unk>"])
    t.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    save("unigram", t)


def wordpiece(text, name, lowercase):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=lowercase, lowercase=lowercase
    )
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(prefix="##")
    t.train_from_iterator(
        text,
        trainers.WordPieceTrainer(
            vocab_size=1000,
            special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
            limit_alphabet=250,
            show_progress=False,
        ),
    )
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    save(name, t)


if __name__ == "__main__":
    print(common.versions("tokenizers", "sentencepiece"))
    corpus = training_text()
    llama3(corpus)
    gpt2(corpus)
    sentencepiece_bpe(corpus)
    unigram(corpus)
    wordpiece(corpus, "wordpiece-uncased", True)
    wordpiece(corpus, "wordpiece-cased", False)

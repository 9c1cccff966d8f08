"""Writes testdata/tokenizer/nasty.json: about 3,000 strings that tokenizers tend to get wrong.

Usage: corpus.py        (standard library only; prose comes from testdata/text/prose.txt)
"""

import os
import random
import unicodedata

import common

SEED = 20240611

EMOJI = [
    "😀", "🎉", "👍🏽", "👩‍💻", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇫🇷", "🇯🇵🇺🇸", "❤️", "❤", "☺️", "1️⃣", "#️⃣", "🧑🏿‍🚀",
    "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "⌚", "🤷🏻‍♀️", "🫠", "🇦", "🏽", "©️", "™",
]
PHRASES = [
    "你好，世界。", "今天天气很好", "東京都に行きました。", "カタカナとひらがな", "ｶﾀｶﾅ", "안녕하세요 세계", "각하", "각", "한국어 텍스트입니다",
    "مرحبا بالعالم", "السَّلامُ عَلَيْكُم", "שלום עולם", "שָׁלוֹם", "Привет, мир!", "Ёлка ёлка",
    "Γειά σου Κόσμε", "ΣΊΣΥΦΟΣ σίσυφος", "नमस्ते दुनिया", "क्षत्रिय", "สวัสดีชาวโลก", "ភាសាខ្មែរ",
    "မြန်မာ", "தமிழ்", "ქართული", "Հայերեն", "አማርኛ", "བོད་སྐད་", "Việt Nam đẹp lắm",
    "İstanbul ıssız", "Straße STRASSE ẞ", "naïve café résumé", "Ångström Å Å", "ﬁ ﬂ ﬃ", "①②③",
    "Ⅷ ⅷ", "½ ⅓ ²³", "𝕳𝖊𝖑𝖑𝖔", "𝟘𝟙𝟚", "Ａｂｃ１２３", "Dž ǅ Ǉ", "ʰʲʷ", "ªº", "ⓐⓑ", "٠١٢٣٤٥", "०१२३",
    "๐๑๒", "〇一二三", "〆々ゝ", "𠀀𠀁𪚥", "ᚠᚢᚦ", "𐌰𐌱", "𒀀𒁀", "ꙮ", "ﷺ", "﷽", "\u0600\u06dd", "№ ℡ ℃",
    "∀x∈ℝ: ⌈x⌉", "→⇒⟶", "░▒▓", "「引用」『二重』", "…—–‐‑", "‘single’ “double” «guillemets»",
]
COMBINING = [
    "e\u0301", "a\u0308\u0304", "Z\u0351\u036b\u0343a\u0363l\u0334g\u0321o\u0489", "\u0301alone",
    "x\u20dd", "n\u0303o\u0303", "\u0f71\u0f74", "o\u0302\u0323 o\u0323\u0302", "\u0915\u093c",
    "q\u0307\u0323", "\u1e9b\u0323", "A\u030a", "가\u11a8", "\u0344", "s\u0323\u0307", "i\u0307",
    "\u05e9\u05bc\u05c1", "\u0b47\u0b3e",
]
CONTRACTIONS = [
    "I'm", "you're", "he'll", "they've", "she'd", "it's", "don't", "I'M", "YOU'RE", "HE'LL",
    "THEY'VE", "SHE'D", "IT'S", "DON'T", "We'Re", "y'all'd've", "'tis", "'s", "'S", "''s", "x'ſ",
    "o'clock", "rock'n'roll", "I’m", "don’t", "it`s", "'re 've 'll", "a'sb", "'LL'll", "can't've",
    "1's", "_'s", "é's",
]
CODE = [
    "int main(int argc, char** argv) {\n\treturn 0;\n}\n",
    "def f(x):\n    if x:\n        return [i**2 for i in x]\n",
    "std::vector<std::pair<int,int>> v{{1,2},{3,4}};",
    "#include <stdio.h>\r\n#define X(a,b) a##b\r\n", "SELECT * FROM t WHERE a='x' AND b<>\"y\";--",
    "for(;;){i++;--j;k+=1;l<<=2;m>>=3;}", "a&&b||!c?d:e", "<div class=\"x\">&nbsp;&lt;</div>",
    "{\"a\": [1, 2.5e-10, null, true]}", "let s = r#\"raw\"#; // ünïcode",
    "console.log(`${a}\\n`);", "x = 0xDEADBEEF + 0b1010 + 1_000_000", "/* */ // ** \\ \\\\ \\n",
    "$HOME/.config/*.{a,b}", "snake_case camelCase PascalCase SCREAMING_SNAKE kebab-case",
    "HTTPServerError2XX", "user@example.com", "https://example.com/a/b?c=d&e=f%20g#frag",
    "C:\\Users\\x\\y.txt", "-----BEGIN-----", "====", "########", "!!!???",
    "\\frac{1}{2} \\sum_{i=0}^{n} x_i^2", "(((())))", "[[[]]]", "<<<>>>", ".,;:!?", "....",
    ". . .", "*bold* _it_ ~~s~~", "- [ ] todo\n- [x] done\n\n1. one\n2. two",
    "```py\nprint(1)\n```", "a\\tb", "@@ -1,3 +1,4 @@", "%s %d %5.2f%%",
]
SPECIALS = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>", "<unk>", "<pad>", "<bos>",
    "<eos>", "<start_of_turn>", "<end_of_turn>", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]",
    "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|fim_prefix|>", "<tool_call>",
    "</tool_call>", "<0x0A>", "<unused0>", "[INST]", "<|repo_name|>", "<mask>",
    "<|file_separator|>", "<jupyter_code>", "▁", "##ing", "Ġ", "Ċ", "<2mass>", "<|END|>",
]
SPACES = [
    " ", "\t", "\n", "\r", "\r\n", "\u00a0", "\u2003", "\u3000", "\u200b", "\u200d", "\ufeff",
    "\u2028", "\u2029", "\u0085", "\u1680", "\u202f", "\u205f", "\x0b", "\x0c", "\u180e", "\u2060",
    "\x1c", "\x1f",
]
EDGE = [
    "\x00", "\x01", "\x07", "\x08", "\x1b[0m", "\x7f", "\x80", "\x9f", "\xad", "\u0378", "\ud7ff",
    "\ue000", "\uf8ff", "\ufdd0", "\ufffd", "\ufffe", "\uffff", "\U00010000", "\U0001fffe",
    "\U000e0001", "\U000f0000", "\U0010ffff", "\u202e", "\u2066", "\u0640", "\u034f", "\ufe0f",
    "\U000e0100", "\u07ff", "\u0800", "\x00\x00a\x00", "a\u0000b",
]
WORDS = """
the of and to in is was for that with on as be at by this have from or had not are but
what all were when we there can an your which their if do will each how them then many
some so these would other into has more two bank account transfer electronic consumer
liability Regulation tokenization antidisestablishmentarianism
Donaudampfschifffahrtsgesellschaft internationalization unhappiness running quickly New
York NASA iPhone McDonald eBay LaTeX GPU CPU-bound state-of-the-art e.g. i.e. Mr. U.S.A.
Ph.D.
""".split()


def prose_sentences():
    path = os.path.join(common.TESTDATA, "text", "prose.txt")
    with open(path, encoding="utf-8") as f:
        return [line.strip() for line in f if len(line.strip()) > 40]


def random_scalar(r):
    """An assigned code point drawn from blocks of very different size, never a surrogate."""
    lo, hi = r.choice([
        (0x20, 0x7f), (0x80, 0x250), (0x250, 0x800), (0x800, 0x2000), (0x2000, 0x2c00),
        (0x2e80, 0xa000), (0xa000, 0xd800), (0xe000, 0x10000), (0x10000, 0x11000),
        (0x1d000, 0x20000), (0x20000, 0x2a6d0), (0xe0100, 0xe01f0), (0xf0000, 0x110000)])
    while unicodedata.category(c := chr(r.randrange(lo, hi))) == "Cn":
        pass  # a character of a later Unicode would mean other things to other tables
    return c


def number(r):
    n = r.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 17, 25, 40])
    digits = "".join(r.choice("0123456789") for _ in range(n))
    return r.choice([
        digits, digits, "-" + digits, "$" + digits + ".99", "0x" + digits, digits + "%",
        f"{int(digits):,}", digits + "th", "v" + digits, digits[:2] + "/" + digits,
        digits + "e-" + digits[:1], digits + "km", "３" + digits, digits + "٣", digits + "²"])


def piece(r):
    """One fragment from a random family."""
    families = [
        lambda: r.choice(EMOJI), lambda: r.choice(PHRASES), lambda: r.choice(COMBINING),
        lambda: r.choice(CONTRACTIONS), lambda: r.choice(CODE), lambda: r.choice(SPECIALS),
        lambda: r.choice(SPACES) * r.choice([1, 1, 2, 3, 7]), lambda: r.choice(EDGE),
        lambda: number(r), lambda: "".join(random_scalar(r) for _ in range(r.randrange(1, 8))),
        lambda: " ".join(r.choice(WORDS) for _ in range(r.randrange(1, 6)))]
    return r.choice(families)()


def around_specials():
    """Special-token strings alone, doubled, inside words, cut short and in the wrong case."""
    out = [" " + s for s in SPECIALS + PHRASES] + [s + s for s in SPECIALS]
    out += [f"x{s}y" for s in SPECIALS] + [s.upper() for s in SPECIALS[:12]]
    out += [f"{s}\n{t}" for s in SPECIALS[:12] for t in ("user\nHi", " x", "\n")]
    out += [s[:-1] for s in SPECIALS[:12]] + [s[0] + s for s in SPECIALS[:12]]
    return out + ["<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"]


def around_spaces():
    """Runs of white space alone, before, after and between words, and before punctuation."""
    out = []
    for s in SPACES[:12]:
        for n in (2, 3, 4, 8, 15, 16, 17, 33):
            out += [s * n, s * n + "word", "word" + s * n, "a" + s * n + "b", "a" + s * n + "."]
    kinds = (" ", "\n", "\t", "\r\n")
    return out + [a + b + c for a in kinds for b in kinds for c in ("", "x", " x", "1", "!", "\n")]


def long_strings(r):
    out = [c * n for c in "a=-_.!é你😀" for n in (2, 3, 5, 9, 16, 31, 64, 128)]
    out += ["x" * 1000, "ab" * 700, " " * 600, "\n" * 300, "é" * 400, "漢字" * 300, "🎉" * 120]
    letters = "abcdefghijklmnopqrstuvwxyz"
    return out + ["a\u0301" * 200, "A" * 513, "supercalifragilistic" * 40,
                  "".join(r.choice(letters) for _ in range(1500))]


def words_in_context():
    words = ("word", "Word", "WORD", "wORD", "слово", "12", "")
    before = ("", " ", "'", "\"", "(", "-", "_", "$", "\n")
    after = ("", ".", "'s", ")", "\n", "  ")
    return [p + w + q for w in words for p in before for q in after]


def build():
    r = random.Random(SEED)
    symbols = [chr(c) for c in range(0x21, 0x7f) if not chr(c).isalnum()]
    out = ["", " ", "  ", "\n", "a", "A", " a", "a ", " a ", "\n\n\n"]
    out += ["Hello world", "Hello, world!", " Hello", "hello  world"]
    out += EMOJI + PHRASES + COMBINING + CONTRACTIONS + CODE + SPECIALS + SPACES + EDGE
    out += around_specials() + around_spaces()
    out += ["1" * n for n in range(1, 34)] + [" " + "7" * n for n in range(1, 12)]
    out += [number(r) for _ in range(150)] + long_strings(r) + words_in_context()
    out += [f"a{c}b" for c in symbols] + [" " + c for c in symbols]
    out += [chr(c) for c in range(0x80, 0x100)]
    out += ["".join(random_scalar(r) for _ in range(r.randrange(1, 24))) for _ in range(350)]
    out += ["".join(piece(r) for _ in range(r.randrange(2, 7))) for _ in range(420)]
    out += [" ".join(piece(r) for _ in range(r.randrange(2, 6))) for _ in range(180)]
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        out += [unicodedata.normalize(form, s) for s in PHRASES[::5] + COMBINING[::2]]
    sentences = prose_sentences()
    out += [s[: r.randrange(40, 320)] for s in r.sample(sentences, min(60, len(sentences)))]
    out += [s.upper()[:120] for s in sentences[:8]]
    for _ in range(150):
        out.append(" ".join(r.choice(WORDS) for _ in range(r.randrange(2, 25))).capitalize() + ".")
    return list(dict.fromkeys(out))


if __name__ == "__main__":
    strings = build()
    for s in strings:
        s.encode("utf-8")  # raises on a lone surrogate
    common.save_json(os.path.join(common.TESTDATA, "tokenizer", "nasty.json"), {
        "generator": "tools/goldens/corpus.py", "seed": SEED,
        "versions": f"unicodedata=={unicodedata.unidata_version}", "strings": strings})
    print(len(strings), "strings,", sum(len(s.encode()) for s in strings), "bytes")

"""Writes testdata/text/prose.txt: plain English of Regulation E (12 CFR 1005), a paragraph a line.

Usage: prose.py REGULATIONS_DIR MODEL.gguf     (counts tokens with the tokenizer of a Qwen GGUF)

The source is the XML of cfpb/regulations-xml, a US government work. The length is set by whole
paragraphs: the first that brings the text to 2,300 Qwen tokens ends it.
"""

import os
import sys
import xml.etree.ElementTree as ET

import common

FILE = "reg_e_2013-06861.xml"
SECTIONS = ["1005-6", "1005-7", "1005-8", "1005-10", "1005-11"]
TOKENS = 2300
NS = "{eregs}"


def flat(element):
    return " ".join("".join(element.itertext()).split())


def paragraphs(section):
    """Heading, then each paragraph's title and content in reading order, without its marker."""
    yield flat(section.find(NS + "subject"))
    for p in section.iter(NS + "paragraph"):
        parts = [
            flat(p.find(NS + tag)) for tag in ("title", "content") if p.find(NS + tag) is not None
        ]
        text = " ".join(x for x in parts if x)
        if text:
            yield text


def main(regulations, gguf):
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(
        os.path.dirname(gguf), gguf_file=os.path.basename(gguf)
    )
    root = ET.parse(os.path.join(regulations, FILE)).getroot()
    sections = {s.get("label"): s for s in root.iter(NS + "section")}
    text = ""
    for p in (p for label in SECTIONS for p in paragraphs(sections[label])):
        text += p + "\n"
        if len(tokenizer(text)["input_ids"]) >= TOKENS:
            break
    path = os.path.join(common.TESTDATA, "text", "prose.txt")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    print(
        common.versions("transformers"),
        len(text),
        "characters,",
        len(tokenizer(text)["input_ids"]),
        "tokens, ends:",
        text[-120:],
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

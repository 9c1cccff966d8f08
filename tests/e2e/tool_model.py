"""The small model under a chat template with tools, for clients that call them: it has none of its own.

How well it chooses its calls does not matter; a required call is held to the tool's schema by the server.
"""

import json
import os
import struct

from common import TESTDATA, model_path

NAME = "with-tools"
TEMPLATE_KEY = "tokenizer.chat_template"
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of GGUF's numbers, by type
STRING, ARRAY = 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        value = struct.unpack_from(form, self.data, self.at)[0]
        self.at += struct.calcsize(form)
        return value

    def text(self):
        size = self.number("<Q")
        self.at += size
        return bytes(self.data[self.at - size:self.at])

    def skip(self, kind):
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            kind, count = self.number("<I"), self.number("<Q")
            if kind in SIZES:
                self.at += SIZES[kind] * count
            else:
                for _ in range(count):
                    self.skip(kind)
        else:
            self.at += SIZES[kind]


def with_template(data, template):
    """The GGUF file `data` with another chat template. Tensors count from the end of the head, so they only move."""
    reader = Reader(data)
    reader.at = 8
    n_tensors, n_keys = reader.number("<Q"), reader.number("<Q")
    begin = end = None
    alignment = 32
    for _ in range(n_keys):
        key, kind, at = reader.text(), reader.number("<I"), reader.at
        reader.skip(kind)
        if key == TEMPLATE_KEY.encode():
            begin, end = at, reader.at
        elif key == b"general.alignment":
            alignment = struct.unpack_from("<I", data, at)[0]
    for _ in range(n_tensors):
        reader.text()
        n_dims = reader.number("<I")
        reader.at += 8 * n_dims + 4 + 8
    text = template.encode()
    head = bytes(data[:begin]) + struct.pack("<Q", len(text)) + text + bytes(data[end:reader.at])
    return head + bytes(-len(head) % alignment) + bytes(data[reader.at + -reader.at % alignment:])


def make(folder):
    """Writes the model into the folder; its path."""
    with open(model_path(), "rb") as f:
        data = memoryview(f.read())
    with open(os.path.join(TESTDATA, "chat", "qwen2.5.json"), encoding="utf-8") as f:
        template = json.load(f)["template"]
    path = os.path.join(folder, NAME + ".gguf")
    with open(path, "wb") as f:
        f.write(with_template(data, template))
    return path

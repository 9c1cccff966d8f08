"""Writes testdata/quant/blocks.safetensors: raw GGUF blocks of each type and their float32 values.

Usage: quant_blocks.py      (needs gguf, numpy, safetensors)

For each type: `<TYPE>.blocks` U8 [n_bytes] and `<TYPE>.values` F32 [n_elements] from the `gguf`
package's `dequantize`. Payload bytes are uniform random; each f16 scale is finite. The first blocks
hold extremes: payload all zero bits, all one bits, and scales zero, minus zero, subnormal, largest.
The values are exact: every product of scale and code fits 24 bits or is rounded once.
"""

import os

import gguf
import numpy as np

import common

SEED = 7
BLOCKS = 64
# byte offsets of the f16 scales in a block; F16 and BF16 are one "scale" an element
SCALES = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "IQ4_NL": [0],
    "IQ4_XS": [0],
}
EXTREME_SCALES = np.array(
    [0.0, -0.0, 2.0**-24, -(2.0**-24), 2.0**-14, 65504.0, -65504.0, 1.0], np.float16
)


def quantised(r, name):
    block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][1]
    blocks = r.integers(0, 256, (BLOCKS, block_bytes), dtype=np.uint8)
    blocks[0], blocks[1] = 0x00, 0xFF
    for offset in SCALES[name]:
        scale = (r.standard_normal(BLOCKS) * 0.05).astype(np.float16)
        scale[:2] = 1.0
        scale[2 : 2 + len(EXTREME_SCALES)] = (
            r.permutation(EXTREME_SCALES) if offset else EXTREME_SCALES
        )
        blocks[:, offset : offset + 2] = scale.view(np.uint8).reshape(BLOCKS, 2)
    return blocks


def half(r, name):
    """2,048 random finite patterns of a 16-bit float type, subnormals and both zeros among them."""
    exponent = 0x7C00 if name == "F16" else 0x7F80
    bits = r.integers(0, 1 << 16, BLOCKS * 32, dtype=np.uint16)
    bits[(bits & exponent) == exponent] &= 0x80FF if name == "F16" else 0x807F
    bits[:6] = [0x0000, 0x8000, 0x0001, 0x8001, exponent - 1, 0x8000 | (exponent - 1)]
    return bits.view(np.uint8).reshape(BLOCKS, 64)


def main():
    r = np.random.default_rng(SEED)
    tensors = {}
    for name in ["F16", "BF16", *SCALES]:
        blocks = half(r, name) if name in ("F16", "BF16") else quantised(r, name)
        values = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name]).astype(np.float32)
        assert np.isfinite(values).all(), name
        tensors[name + ".blocks"], tensors[name + ".values"] = blocks.reshape(-1), values.reshape(
            -1
        )
        print(name, blocks.size, values.size, float(np.abs(values).max()))
    meta = common.provenance(__file__, SEED, "gguf", "numpy")
    common.save_tensors(os.path.join(common.TESTDATA, "quant", "blocks.safetensors"), tensors, meta)
    print(meta["versions"])


if __name__ == "__main__":
    main()

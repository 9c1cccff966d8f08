#!/usr/bin/env python3
"""Converts the pickled weights of a draft head to safetensors, which surety reads.

Usage: convert_head.py FILE [OUT]       (needs torch and safetensors: pip install torch safetensors)

FILE is a .bin, .pt or .pth file as Medusa and EAGLE heads are published with (medusa_lm_head.pt,
pytorch_model.bin), OUT the file to write (default: model.safetensors beside it). A pickle can run code
when it is read; torch's weights_only loader builds tensors and nothing else, and refuses everything
else. Convert only what you would trust with that, and keep config.json beside the result.
"""

import os
import sys


def flatten(value, prefix=""):
    """Tensors by dotted name; files hold either a state dict or one inside `state_dict` or `model`."""
    import torch

    if isinstance(value, torch.Tensor):
        yield prefix, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from flatten(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        raise SystemExit(f"'{prefix or 'the file'}' is a {type(value).__name__}, but tensors are needed")


def main(argv):
    if len(argv) not in (2, 3) or argv[1].startswith("-"):
        raise SystemExit(__doc__.strip())
    source = argv[1]
    out = argv[2] if len(argv) == 3 else os.path.join(os.path.dirname(source), "model.safetensors")
    if os.path.exists(out):
        raise SystemExit(f"'{out}' is there already; name another file to write")
    try:
        import torch
        from safetensors.torch import save_file
    except ImportError as error:
        raise SystemExit(f"{error}; pip install torch safetensors") from error
    loaded = torch.load(source, map_location="cpu", weights_only=True)
    for wrapper in ("state_dict", "model"):
        if isinstance(loaded, dict) and isinstance(loaded.get(wrapper), dict):
            loaded = loaded[wrapper]
    # Tensors that share memory, such as a tied output matrix, are written one by one.
    tensors = {name: tensor.detach().contiguous().clone() for name, tensor in flatten(loaded)}
    if not tensors:
        raise SystemExit(f"'{source}' has no tensors")
    save_file(tensors, out, metadata={"format": "pt"})
    print(f"{out}: {len(tensors)} tensors")


if __name__ == "__main__":
    main(sys.argv)

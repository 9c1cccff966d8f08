"""Writes testdata/heads/pickled: files of torch.save and what is in them, for tools/convert_head.py.

Usage: pickled_heads.py      (needs torch 2.15 and safetensors)

plain.pt is a state dict as heads are published; odd.pt has in it what such a file may: a wrapper, parameters, tensors
that share memory, that lie in it in another order or in a part of it, an empty one, a single number, every type.
Beside each, the tensors as safetensors writes them. legacy.pt is of the format before PyTorch 1.6, model.pt has a
module in it.
"""

import collections
import os

import torch
from safetensors.torch import load_file, save_file

import common

FOLDER = os.path.join(common.TESTDATA, "heads", "pickled")


def both(name, value, tensors):
    torch.save(value, os.path.join(FOLDER, name + ".pt"))
    save_file({key: tensor.detach().contiguous().clone() for key, tensor in tensors.items()},
              os.path.join(FOLDER, name + ".safetensors"), metadata={"format": "pt"})


def main():
    os.makedirs(FOLDER, exist_ok=True)
    torch.manual_seed(7)
    head = load_file(os.path.join(common.TESTDATA, "heads", "medusa_vllm", "model.safetensors"))
    few = collections.OrderedDict((name, head[name].to(torch.float16)) for name in sorted(head)[:2])
    both("plain", few, few)
    base = torch.randn(6, 10)
    odd = {"whole": base, "tied": base, "turned": base.T, "column": base[:, 3], "part": base[2:4, 1:7],
           "every_second": base[:, ::2], "repeated": torch.randn(1, 4).expand(3, 4),
           "cube": torch.randn(2, 3, 4).permute(2, 0, 1), "parameter": torch.nn.Parameter(torch.randn(3, 5)),
           "empty": torch.zeros(0, 4), "number": torch.tensor(2.5)}
    for kind in (torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8,
                 torch.uint8, torch.bool):
        odd["of_" + str(kind).split(".")[1]] = (torch.randn(4, 3) * 9).to(kind)
    both("odd", {"epoch": 3, "state_dict": {"layer": odd}}, {"layer." + name: tensor for name, tensor in odd.items()})
    torch.save(few, os.path.join(FOLDER, "legacy.pt"), _use_new_zipfile_serialization=False)
    torch.save(torch.nn.Linear(3, 3), os.path.join(FOLDER, "model.pt"))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Converts the pickled weights of a draft head to safetensors, which surety reads. Needs nothing but Python.

Usage: convert_head.py FILE [OUT]

FILE is a .bin, .pt or .pth file as Medusa and EAGLE heads are published with (medusa_lm_head.pt, pytorch_model.bin),
OUT the file to write (default: model.safetensors beside it). Keep config.json beside the result. A pickle can run any
code when it is loaded; this reader knows tensors, dictionaries and plain values, and refuses a file that asks for
anything else before any of it is called.
"""

import collections
import io
import json
import os
import pickle
import struct
import sys
import zipfile

# Kind of storage: bytes of an element, its name in safetensors.
KINDS = {"DoubleStorage": (8, "F64"), "FloatStorage": (4, "F32"), "HalfStorage": (2, "F16"),
         "BFloat16Storage": (2, "BF16"), "LongStorage": (8, "I64"), "IntStorage": (4, "I32"),
         "ShortStorage": (2, "I16"), "CharStorage": (1, "I8"), "ByteStorage": (1, "U8"), "BoolStorage": (1, "BOOL")}
NAME_OF_META = "__metadata__"
MOST_VALUES = 100_000   # of a file, so that one that names the same thing again and again ends
MOST_NAMES = 16 << 20   # characters of all names together, for the same reason
MOST_GROWTH = 16        # bytes written for one of the file: tensors may share memory, but not without end
MOST_AXES = 64


class Refused(Exception):
    """What is wrong with a file."""


# Tuples, which a pickle can't change once they are made.
Kind = collections.namedtuple("Kind", "size name")
Storage = collections.namedtuple("Storage", "kind key stored")


def are_sizes(values):
    return (type(values) in (tuple, list) and len(values) <= MOST_AXES
            and all(type(n) is int and 0 <= n < 1 << 63 for n in values))


class Tensor:
    """Where the elements of a tensor are: in storage `key`, which has `stored` elements."""

    def __init__(self, storage, offset, shape, strides, *_):
        # Nothing is put into a message before it is known to be small.
        if not (isinstance(storage, Storage) and are_sizes([offset]) and are_sizes(shape) and are_sizes(strides)
                and len(shape) == len(strides)):
            raise Refused("what it makes a tensor of are no storage, offset, shape and strides of one")
        (self.kind, self.key, self.stored), self.offset = storage, offset
        self.shape, self.strides = tuple(shape), tuple(strides)
        last = offset + sum((n - 1) * step for n, step in zip(self.shape, self.strides))
        if self.count() > 0 and last >= self.stored:
            raise Refused(f"a tensor of shape {self.shape} reaches element {last} of a storage of {self.stored}")

    def __setstate__(self, _):
        raise Refused("it changes a tensor after it was made")

    def count(self):
        count = 1
        for n in self.shape:
            count *= n
        return count

    def size(self):
        return self.count() * self.kind.size

    def is_row_major(self):
        step = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides)):
            if n != 1 and stride != step:
                return False
            step *= n
        return True

    def chunks(self, raw):
        """Its bytes in row-major order, piece by piece, out of those of its storage."""
        size = self.kind.size
        if self.count() == 0:
            return
        if self.is_row_major():
            yield raw[self.offset * size:(self.offset + self.count()) * size]
            return
        at = [0] * (len(self.shape) - 1)  # all but the last axis
        n, stride = self.shape[-1], self.strides[-1]
        while True:
            begin = self.offset + sum(i * step for i, step in zip(at, self.strides))
            if stride == 1:
                yield raw[begin * size:(begin + n) * size]
            else:
                yield b"".join(raw[(begin + i * stride) * size:(begin + i * stride + 1) * size] for i in range(n))
            axis = len(at) - 1
            while axis >= 0 and at[axis] == self.shape[axis] - 1:
                at[axis] = 0
                axis -= 1
            if axis < 0:
                return
            at[axis] += 1


# Functions: of a class a pickle could make objects without calling it.
def rebuild_tensor(*arguments):
    return Tensor(*arguments)


def rebuild_parameter(tensor, *_):
    return tensor


def empty_dictionary(*arguments):
    if arguments:
        raise Refused("it makes a dictionary in a way that torch.save does not")
    return collections.OrderedDict()


def size_of(numbers):
    if not are_sizes(numbers):
        raise Refused("it makes a torch.Size of something else than sizes")
    return tuple(numbers)


# Of the language of pickles: torch.save does not use these, and some make much of little (memory for a stated length,
# hashes of tuples of tuples).
LEFT_OUT = (pickle.BYTEARRAY8 + pickle.NEXT_BUFFER + pickle.READONLY_BUFFER + pickle.EMPTY_SET + pickle.ADDITEMS +
            pickle.FROZENSET + pickle.DICT + pickle.INST + pickle.OBJ + pickle.NEWOBJ + pickle.NEWOBJ_EX + pickle.EXT1 +
            pickle.EXT2 + pickle.EXT4 + pickle.PERSID)


# The reader written in Python: the other one takes memory for whatever number a broken file says.
class Reader(pickle._Unpickler):  # pylint: disable=protected-access
    """Builds descriptions of tensors; every other name that a file asks for is refused."""

    KNOWN = {("collections", "OrderedDict"): empty_dictionary,
             ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
             ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
             ("torch", "Size"): size_of}

    def find_class(self, module, name):
        if module == "torch" and name in KINDS:
            return Kind(*KINDS[name])
        known = self.KNOWN.get((module, name))
        if known is None:
            raise Refused(f"it asks for {module}.{name}: it has more in it than tensors and is not read")
        return known

    def persistent_load(self, pid):
        if not (type(pid) is tuple and len(pid) == 5 and pid[0] == "storage" and isinstance(pid[1], Kind)
                and type(pid[2]) is str and are_sizes([pid[4]])):
            raise Refused("it refers to something that is no storage of a tensor")
        return Storage(pid[1], pid[2], pid[4])

    def store(self, items):
        """Keys and values, one after the other, into the dictionary on top of the stack."""
        into = self.stack[-1]
        if not isinstance(into, dict):
            raise Refused("it stores values in something that is no dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) not in (str, int):
                raise Refused("a key of a dictionary is neither text nor a number")
            into[key] = value

    def load_setitem(self):
        value, key = self.stack.pop(), self.stack.pop()
        self.store([key, value])

    def load_setitems(self):
        self.store(self.pop_mark())

    def load_build(self):  # what torch.save says of a state dict beside its values
        self.stack.pop()
        if not isinstance(self.stack[-1], dict):
            raise Refused("it changes a value after it was made")

    dispatch = {code: load for code, load in pickle._Unpickler.dispatch.items() if code not in LEFT_OUT}
    dispatch |= {pickle.SETITEM[0]: load_setitem, pickle.SETITEMS[0]: load_setitems, pickle.BUILD[0]: load_build}


def flatten(value):
    """Tensors by dotted name."""
    tensors, waiting, n_seen, n_named = {}, [("", value)], 0, 0
    while waiting:
        name, inner = waiting.pop()
        n_seen += 1
        if isinstance(inner, Tensor):
            if name in tensors or name == NAME_OF_META:
                raise Refused(f"it has more than one tensor for the name '{name}', or a name that safetensors keeps")
            tensors[name] = inner
        elif isinstance(inner, dict):
            n_named += sum(len(name) + (len(key) if isinstance(key, str) else 20) for key in inner)
            if n_seen + len(waiting) + len(inner) > MOST_VALUES or n_named > MOST_NAMES:
                raise Refused(f"it has more than {MOST_VALUES} values, or values in themselves, or endless names")
            if any(isinstance(key, int) and abs(key) >= 1 << 63 for key in inner):
                raise Refused("a key of a dictionary is a number beyond 64 bits")
            waiting += reversed([(f"{name}.{key}" if name else str(key), part) for key, part in inner.items()])
        else:
            raise Refused(f"'{name or 'the file'}' is a {type(inner).__name__}, but tensors are needed")
    return tensors


def check_members(archive):
    if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
        raise Refused("parts of it are compressed, which torch.save never does")
    if any(member.flag_bits & 1 for member in archive.infolist()):
        raise Refused("parts of it are encrypted, which torch.save never does")


def read_tensors(archive, file_size):
    """Tensors by name, and the archive's folder. Files hold a state dict, or one in `state_dict` or `model`."""
    pickled = [name for name in archive.namelist() if name == "data.pkl" or name.endswith("/data.pkl")]
    if len(pickled) != 1:
        raise Refused("it has no data.pkl: it is no file of torch.save")
    check_members(archive)
    folder = pickled[0][:-len("data.pkl")]
    order = folder + "byteorder"
    if order in archive.namelist() and archive.read(order) != b"little":
        raise Refused("its numbers are big-endian")
    try:
        value = Reader(io.BytesIO(archive.read(pickled[0]))).load()
    except (pickle.UnpicklingError, ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, RecursionError,
            TypeError, UnicodeError, ValueError, struct.error) as error:
        raise Refused(f"its data.pkl can't be read: {type(error).__name__} {error}") from error
    for wrapper in ("state_dict", "model"):
        if isinstance(value, dict) and isinstance(value.get(wrapper), dict):
            value = value[wrapper]
    tensors = flatten(value)
    if not tensors:
        raise Refused("it has no tensors")
    n_bytes = sum(tensor.size() for tensor in tensors.values())
    if n_bytes > MOST_GROWTH * max(1 << 20, file_size):
        raise Refused(f"its tensors would take {n_bytes} bytes, far more than it has")
    by_storage = {}  # so that each is read once
    for name, tensor in tensors.items():
        by_storage.setdefault(tensor.key, {})[name] = tensor
    return {name: tensor for those in by_storage.values() for name, tensor in those.items()}, folder


def write(archive, folder, tensors, out):
    header, offset = {NAME_OF_META: {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": tensor.kind.name, "shape": tensor.shape,
                        "data_offsets": (offset, offset + tensor.size())}
        offset += tensor.size()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    out.write(struct.pack("<Q", len(text)) + text)
    done, key, raw = 0, None, b""
    for name, tensor in tensors.items():
        if key != tensor.key:
            key = tensor.key
            try:
                raw = memoryview(archive.read(f"{folder}data/{key}"))
            except KeyError as error:
                raise Refused(f"the elements of '{name}' are not in it") from error
        if len(raw) < tensor.stored * tensor.kind.size:
            raise Refused(f"of the {tensor.stored} elements that '{name}' is in, it has {len(raw)} bytes")
        for chunk in tensor.chunks(raw):
            out.write(chunk)
        done += tensor.size()
        if sys.stderr.isatty():
            print(f"\r{done / 1e6:.0f} of {offset / 1e6:.0f} MB", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)


def main(argv):
    if len(argv) not in (2, 3) or argv[1].startswith("-"):
        raise SystemExit(__doc__.strip())
    source = argv[1]
    out = argv[2] if len(argv) == 3 else os.path.join(os.path.dirname(source), "model.safetensors")
    if os.path.exists(out):
        raise SystemExit(f"'{out}' is there already; name another file to write")
    unfinished = f"{out}.{os.getpid()}.part"
    try:
        with zipfile.ZipFile(source) as archive:
            tensors, folder = read_tensors(archive, os.path.getsize(source))
            with open(unfinished, "wb") as file:
                write(archive, folder, tensors, file)
        os.replace(unfinished, out)
    except zipfile.BadZipFile as error:
        advice = "" if zipfile.is_zipfile(source) else (". Files of PyTorch before 1.6 are not read: load such a file "
                                                        "with torch and save it again")
        raise SystemExit(f"'{source}': {error}{advice}") from error
    except Refused as error:
        raise SystemExit(f"'{source}': {error}") from error
    except (MemoryError, RuntimeError) as error:  # NotImplementedError: a zip of a kind that Python can't read
        raise SystemExit(f"'{source}' can't be read: {type(error).__name__} {error}") from error
    except OSError as error:
        raise SystemExit(str(error)) from error
    except KeyboardInterrupt:
        print("stopped; nothing was written", file=sys.stderr)
        return 130
    finally:
        if os.path.exists(unfinished):
            os.remove(unfinished)
    print(f"{out}: {len(tensors)} tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

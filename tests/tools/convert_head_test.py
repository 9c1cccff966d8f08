#!/usr/bin/env python3
"""tools/convert_head.py against files of torch.save, and against safetensors' own writing of their tensors."""
import json
import os
import pickle
import resource
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PICKLED = os.path.join(ROOT, "testdata", "heads", "pickled")


def tensors_of(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
            for name, entry in header.items()}


class ConvertHeadTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def convert(self, source, out):
        def limit():  # a gigabyte: enough for any of these files
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        return subprocess.run([sys.executable, os.path.join(ROOT, "tools", "convert_head.py"), source, out],
                              capture_output=True, text=True, timeout=60, check=False, preexec_fn=limit)

    def refuses(self, source, says):
        done = self.convert(source, self.path("out"))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(says, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("out")], [])

    def changed(self, name, change):
        """A copy of odd.pt whose members went through `change`, which leaves one out by None."""
        with zipfile.ZipFile(os.path.join(PICKLED, "odd.pt")) as old, zipfile.ZipFile(self.path(name), "w") as new:
            for member in old.namelist():
                data = change(member, old.read(member))
                if data is not None:
                    new.writestr(member, data)
        return self.path(name)

    def test_tensors_are_those_that_torch_saved(self):
        for name in ("plain", "odd"):
            done = self.convert(os.path.join(PICKLED, name + ".pt"), self.path(name))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(tensors_of(self.path(name)), tensors_of(os.path.join(PICKLED, name + ".safetensors")))

    def test_a_file_that_is_there_stays(self):
        with open(self.path("there"), "w", encoding="utf-8") as f:
            f.write("mine")
        done = self.convert(os.path.join(PICKLED, "plain.pt"), self.path("there"))
        self.assertIn("is there already", done.stderr)
        with open(self.path("there"), encoding="utf-8") as f:
            self.assertEqual(f.read(), "mine")

    def test_what_is_no_tensor_is_refused_and_never_called(self):
        class Harm:
            def __reduce__(self):
                return os.mkdir, (os.path.join(os.environ["FOLDER"], "harm"),)

        os.environ["FOLDER"] = self.folder
        harmful = self.changed("harmful.pt", lambda name, data: pickle.dumps({"a": Harm()}, 2)
                               if name.endswith("data.pkl") else data)
        self.refuses(harmful, "posix.mkdir")
        self.assertFalse(os.path.exists(self.path("harm")))
        self.refuses(os.path.join(PICKLED, "model.pt"), "torch.nn.modules.linear.Linear")

    def test_broken_files_say_what_is_wrong(self):
        self.refuses(os.path.join(PICKLED, "legacy.pt"), "before 1.6")
        self.refuses(os.path.join(PICKLED, "plain.safetensors"), "before 1.6")
        self.refuses(self.path("absent.pt"), "absent.pt")
        self.refuses(self.changed("none.pt", lambda name, data: None if name.endswith("data.pkl") else data),
                     "no data.pkl")
        self.refuses(self.changed("gone.pt", lambda name, data: None if name.endswith("data/0") else data),
                     "are not in it")
        self.refuses(self.changed("short.pt", lambda name, data: data[:-1] if name.endswith("data/0") else data),
                     "it has 239 bytes")
        self.refuses(self.changed("big.pt", lambda name, data: b"big" if name.endswith("byteorder") else data),
                     "big-endian")
        with open(os.path.join(PICKLED, "odd.pt"), "rb") as f:
            whole = f.read()
        with open(self.path("cut.pt"), "wb") as f:
            f.write(whole[:len(whole) // 2])
        self.refuses(self.path("cut.pt"), "cut.pt")

    def pickled(self, name, value):
        return self.changed(name, lambda member, data: value if member.endswith("data.pkl") else data)

    def test_small_files_that_mean_much_are_refused(self):
        def tensor(offset, shape, strides):
            storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x3ctQ"
            return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage +
                    b"".join(pickle.dumps(part, 2)[2:-1] for part in (offset, shape, strides)) + b"\x89N}tR")

        self.refuses(self.pickled("wide.pt", b"\x80\x02}X\x01\x00\x00\x00a" + tensor(0, (1 << 40, 4), (0, 1)) + b"s."),
                     "far more than it has")
        self.refuses(self.pickled("beyond.pt", b"\x80\x02}X\x01\x00\x00\x00a" + tensor(1, (15, 4), (4, 1)) + b"s."),
                     "reaches element 60 of a storage of 60")
        inner = {}
        for _ in range(40):
            inner = {"a": inner, "b": inner}
        self.refuses(self.pickled("doubled.pt", pickle.dumps(inner, 2)), "more than 100000 values")
        itself = {}
        itself["a"] = itself
        self.refuses(self.pickled("itself.pt", pickle.dumps(itself, 2)), "values in themselves")
        # A tensor's state set by the file: what was checked would be another.
        self.refuses(self.pickled("state.pt", b"\x80\x02}X\x01\x00\x00\x00a" + tensor(0, (3, 4), (4, 1)) + b"}bs."),
                     "after it was made")
        with zipfile.ZipFile(self.path("packed.pt"), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a/data.pkl", b"\x80\x02}.")
            archive.writestr("a/byteorder", bytes(1 << 28))
        self.refuses(self.path("packed.pt"), "compressed")

        def named(name):
            return b"X" + struct.pack("<I", len(name)) + name
        deep = b")" + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(40))  # pairs of pairs
        good, storage = tensor(0, (3, 4), (4, 1)), b"ctorch\nFloatStorage\n"
        wide = tensor(0, (1 << 40, 4), (0, 1))
        attacks = {
            "a deep key": (b"}" + deep + b"K\x01s", "neither text nor a number"),
            "deep keys": (b"}(" + deep + b"K\x01u", "neither text nor a number"),
            "a deep storage": (b"(" + named(b"storage") + storage + deep + named(b"") + b"K\x01tQ", "no storage"),
            "a deep shape": (b"ctorch._utils\n_rebuild_tensor_v2\n(N" + b"K\x00" + deep + b")\x89N}tR", "tensor"),
            "a deep size": (b"ctorch\nSize\n" + deep + b"\x85R", "torch.Size"),
            "a deep dictionary": (b"ccollections\nOrderedDict\n" + deep + b"\x85R", "dictionary"),
            "a kind that changes": (b"}" + named(b"a") + storage + b"}" + named(b"size") + b"K\x00sb" + b"0" + wide +
                                    b"s", "after it was made"),
            "a storage of its own": (b"}" + named(b"a") + b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage +
                                     named(b"0") + b"K\x3c\x87K\x00K\x01\x85K\x01\x85\x89N}tRs", "tensor"),
            "bytes that are not there": (b"\x96" + struct.pack("<Q", 1 << 40), "can't be read"),
            "a set": (b"\x8f", "can't be read"),
            "long names": (b"}" + b"".join(named(b"%d" % i) + (b"}" + named(b"x" * 200_000) + b"q\xc8" if i == 0 else
                                                              b"}h\xc8") + good + b"ss" for i in range(1000)),
                           "endless names"),
            "one name twice": (b"}" + named(b"a.b") + good + b"s" + named(b"a") + b"}" + named(b"b") + good + b"ss",
                               "more than one"),
            "safetensors' own name": (b"}" + named(b"__metadata__") + good + b"s", "safetensors keeps"),
            "a method in the way": (b"ccollections\nOrderedDict\n)R}" + named(b"items") + b"K\x01sb", "no tensors"),
            "an axis without end": (b"}" + named(b"a") + tensor(0, (10**5000,), (0,)) + b"s", "tensor"),
            "a key without end": (b"}" + pickle.dumps(10**5000, 2)[2:-1] + good + b"s", "64 bits"),
            "many axes": (b"}" + named(b"a") + tensor(0, (1,) * 65, (1,) * 65) + b"s", "tensor")}
        for name, (code, says) in attacks.items():
            with self.subTest(name):
                self.refuses(self.pickled(name, b"\x80\x05" + code + b"."), says)
        # What the directory of the zip says of sizes is the file's own word.
        path = self.pickled("claims.pt", b"\x80\x02}" + named(b"a") + tensor(0, (1 << 26, 4), (0, 1)) + b"s.")
        with open(path, "rb") as f:
            data = f.read()
        at = data.rfind(b"PK\x01\x02")
        with open(path, "wb") as f:
            f.write(data[:at + 24] + struct.pack("<I", (1 << 32) - 2) + data[at + 28:])
        self.refuses(path, "far more than it has")
        encrypted = bytearray(data)
        for at in (encrypted.find(b"PK\x01\x02") + 8, encrypted.find(b"PK\x03\x04") + 6):
            encrypted[at] |= 1
        with open(self.path("encrypted.pt"), "wb") as f:
            f.write(encrypted)
        self.refuses(self.path("encrypted.pt"), "encrypted")

    def test_every_cut_and_every_changed_byte_of_the_pickle_ends_in_a_message_or_in_tensors(self):
        with zipfile.ZipFile(os.path.join(PICKLED, "odd.pt")) as archive:
            name = next(member for member in archive.namelist() if member.endswith("data.pkl"))
            whole = archive.read(name)
        sys.path.insert(0, os.path.join(ROOT, "tools"))
        import convert_head  # pylint: disable=import-outside-toplevel,import-error
        broken = [whole[:n] for n in range(0, len(whole), 7)]
        for at in range(0, len(whole), 3):
            broken += [whole[:at] + bytes([value]) + whole[at + 1:] for value in (0, 0x2E, 0x52, whole[at] ^ 1)]
        n_refused = 0
        for data in broken:
            path = self.changed("broken.pt", lambda member, old: data if member == name else old)
            try:
                with zipfile.ZipFile(path) as archive, open(os.devnull, "wb") as sink:
                    tensors, folder = convert_head.read_tensors(archive, os.path.getsize(path))
                    convert_head.write(archive, folder, tensors, sink)
            except convert_head.Refused:
                n_refused += 1
        self.assertGreater(n_refused, len(broken) // 2)


if __name__ == "__main__":
    unittest.main()

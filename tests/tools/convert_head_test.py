#!/usr/bin/env python3
"""tools/convert_head.py against files of torch.save, and against safetensors' own writing of their tensors."""
import json
import os
import pickle
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
        return subprocess.run([sys.executable, os.path.join(ROOT, "tools", "convert_head.py"), source, out],
                              capture_output=True, text=True, timeout=60, check=False)

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
        self.refuses(self.path("packed.pt"), "compressed")

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
                    tensors, folder = convert_head.read_tensors(archive)
                    convert_head.write(archive, folder, tensors, sink)
            except convert_head.Refused:
                n_refused += 1
        self.assertGreater(n_refused, len(broken) // 2)


if __name__ == "__main__":
    unittest.main()

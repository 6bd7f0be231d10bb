"""The programs of examples that make data of what others publish."""

import gzip
import importlib.util
import io
import os
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAKE_CIFAR10 = os.path.join(ROOT, "examples/cifar10/make_data.py")
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
RECORD = 3073


def record(label, red, green, blue):
    return bytes([label]) + bytes(red) + bytes(green) + bytes(blue)


def plane(at, value):
    """A colour that is 0 but at one pixel."""
    return [value if i == at else 0 for i in range(1024)]


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class Cifar10(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def archive(self, **files):
        """The archive as it is published, with these files."""
        path = os.path.join(self.folder, "cifar-10-binary.tar.gz")
        with tarfile.open(path, "w:gz") as archive:
            for name, data in {"readme.html": b"<html>", "batches.meta.txt": b"cat\n",
                               **files}.items():
                member = tarfile.TarInfo("cifar-10-batches-bin/" + name.replace("_bin", ".bin"))
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return path

    def make(self, source):
        return subprocess.run(
            [sys.executable, MAKE_CIFAR10, source, "--out", self.folder + "/data"],
            capture_output=True, text=True, check=False)

    def load(self, name):
        import numpy

        return numpy.load(f"{self.folder}/data/{name}.npy")

    def test_an_archive_becomes_images_with_colours_last_in_the_files_order(self):
        black = plane(0, 0)
        first = record(3, plane(0, 200), plane(33, 100), plane(1023, 50))
        made = self.make(self.archive(
            test_batch_bin=record(9, black, black, black),
            data_batch_2_bin=record(7, black, plane(5, 1), black),
            data_batch_1_bin=first + record(0, black, black, black)))
        self.assertEqual(made.returncode, 0, made.stderr)
        images, labels = self.load("train_images"), self.load("train_labels")
        self.assertEqual(images.dtype, "u1")
        self.assertEqual(images.shape, (3, 32, 32, 3))
        self.assertTrue(images.flags.c_contiguous)
        self.assertEqual(labels.tolist(), [3, 0, 7])
        self.assertEqual(images[0, 0, 0].tolist(), [200, 0, 0])
        self.assertEqual(images[0, 1, 1].tolist(), [0, 100, 0])
        self.assertEqual(images[0, 31, 31].tolist(), [0, 0, 50])
        self.assertEqual(int(images.sum()), 200 + 100 + 50 + 1)
        self.assertEqual(self.load("test_labels").tolist(), [9])
        self.assertEqual(self.load("test_images").shape, (1, 32, 32, 3))

    def test_what_is_no_such_archive_is_refused_by_name(self):
        whole = bytes(RECORD)
        for files, said in [
                ({"data_batch_1_bin": whole}, "needs data_batch_1.bin and test_batch.bin"),
                ({"data_batch_1_bin": whole[:-1], "test_batch_bin": whole},
                 "data_batch_1.bin: has 3072 bytes, which are no records of 3073"),
                ({"data_batch_1_bin": whole, "test_batch_bin": b""}, "test_batch.bin: has 0 bytes"),
                ({"data_batch_1_bin": whole + bytes([10]) + whole[1:], "test_batch_bin": whole},
                 "record 1 has the label 10")]:
            made = self.make(self.archive(**files))
            self.assertNotEqual(made.returncode, 0)
            self.assertIn(said, made.stderr)
            self.assertFalse(os.path.exists(self.folder + "/data"))

    def test_images_of_mnists_form_get_a_rim_and_three_equal_colours(self):
        source = self.folder + "/idx"
        os.mkdir(source)
        for part in ("train", "t10k"):
            with gzip.open(f"{source}/{part}-images-idx3-ubyte.gz", "wb") as file:
                file.write(struct.pack(">4B3I", 0, 0, 8, 3, 2, 28, 28) + bytes([9]) + bytes(1567))
            with gzip.open(f"{source}/{part}-labels-idx1-ubyte.gz", "wb") as file:
                file.write(struct.pack(">4BI", 0, 0, 8, 1, 2) + bytes([4, 5]))
        made = self.make(source)
        self.assertEqual(made.returncode, 0, made.stderr)
        images = self.load("test_images")
        self.assertEqual(images.shape, (2, 32, 32, 3))
        self.assertEqual(images[0, 2, 2].tolist(), [9, 9, 9])
        self.assertEqual(int(images.sum()), 27)
        self.assertEqual(self.load("train_labels").tolist(), [4, 5])


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    skipped = len(program.result.skipped)
    if skipped and program.result.wasSuccessful():
        print(f"skipped: {skipped} tests, for want of NumPy")
    sys.exit(not program.result.wasSuccessful())

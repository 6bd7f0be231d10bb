"""The Python package's files: safetensors and checkpoints."""

import importlib.util
import json
import os
import re
import shutil
import struct
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
EVERY_BIT = "PARACORD_EVERY_BIT" in os.environ  # takes minutes; tests/run --slow sets it
HAS_NUMPY = importlib.util.find_spec("numpy") is not None


def write_tensors(path, tensors, metadata):
    """A safetensors file with bytes and texts, as a ps writes them."""
    header, data = {"__metadata__": metadata}, b""
    for name, array in tensors.items():
        header[name] = {"dtype": "U8" if array.dtype == "uint8" else "F32",
                        "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def crc_of(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return f"{crc ^ 0xffffffff:08x}"


def identity_of(name):
    """What a checkpoint's files say of it, by the checkpoint's name."""
    step, generation, number = re.fullmatch(r"step-(\d+)-g(\d+)-r(\d+)", name).groups()
    return {"run_id": "run", "generation": int(generation), "round": int(number),
            "step": int(step)}


def ps_metadata(name, ps, count):
    of = identity_of(name)
    return {"format": "paracord.ps", "run_id": of["run_id"], "ps": f"{ps}/{count}",
            "generation": str(of["generation"]), "round": str(of["round"])}


def write_manifest(directory, variables, partitions, files, **more):
    """As the coordinator writes it: `partitions` have a name, a variable and rows."""
    told = []
    for path in files:
        with open(path, "rb") as file:
            data = file.read()
        told.append({"name": os.path.basename(path), "bytes": len(data), "crc32c": crc_of(data)})
    manifest = {"format": "paracord.checkpoint", "format_version": 4, "min_reader_version": 4,
                **identity_of(os.path.basename(directory)), "variables": variables,
                "partitions": partitions, "files": told, **more}
    body = json.dumps(manifest, indent=1)[:-len("\n}")]
    with open(directory + "/MANIFEST.json", "w", encoding="utf-8") as file:
        file.write(f'{body},\n "manifest_crc32c": "{crc_of(body.encode())}"\n}}\n')


def rows_of(begin, end):
    return {"row_begin": begin, "row_end": end}


def write_checkpoint(folder, name, partitions, files, base=None, now=7, table=None, since=7,
                     rows=None):
    """A checkpoint of the growing table `user` in these partitions, and of b."""
    directory = f"{folder}/checkpoints/{name}"
    os.makedirs(directory)
    paths = [f"{directory}/ps-{i:05d}-of-{len(files):05d}.safetensors" for i in range(len(files))]
    for i, tensors in enumerate(files):
        write_tensors(paths[i], tensors, {**ps_metadata(name, i, len(files)), **{
            f"partition:{p}": json.dumps({"updates": now + 1, "table": {
                "now": now, "steps": True, "since": {"now": since, "updates": since + 1},
                "rows": rows}})
            for p in partitions}})
    variables = [{"name": "user", "shape": [len(partitions), 3],
                  "table": {"kind": "growing", **(table or {})}}, {"name": "b", "shape": [1]}]
    parts = [{"name": p, "variable": 0, **rows_of(i, i + 1), **more}
             for i, (p, more) in enumerate(partitions.items())]
    parts.append({"name": "b/part_0", "variable": 1, **rows_of(0, 1)})
    write_manifest(directory, variables, parts, paths, **({"base": base} if base else {}))


def table_rows(*some):
    """An image of rows with a slot: each is an id, its first value and, if not 7, the last batch
    that touched it."""
    import numpy

    image = numpy.zeros(len(some), [("id", "<u8"), ("touched", "<u4"), ("steps", "<u4"),
                                    ("values", "<f4", 3), ("slot", "<f4", 3)])
    for at, (number, first, *touched) in enumerate(some):
        image[at] = (number, touched[0] if touched else 7, 1, (first, first + 1, first + 2),
                     (9, 9, 9))
    return image.view(numpy.uint8).reshape(len(some), 40)


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class Files(unittest.TestCase):
    def test_a_file_and_a_checkpoint_in_parts(self):
        import numpy
        import paracord

        with tempfile.TemporaryDirectory() as folder:
            values = {"w": numpy.arange(6, dtype=numpy.float32).reshape(3, 2),
                      "b": numpy.float32(7)}
            paracord.save(folder + "/all.safetensors", values)
            loaded = paracord.load(folder + "/all.safetensors")
            self.assertEqual(loaded["w"].tolist(), values["w"].tolist())
            self.assertEqual(loaded["b"].shape, ())
            for name in ("step-9-g2-r1", "step-10-g10-r1"):
                checkpoint = f"{folder}/checkpoints/{name}"
                os.makedirs(checkpoint)
                paths = [f"{checkpoint}/ps-0000{i}-of-00002.safetensors" for i in (0, 1)]
                write_tensors(paths[0], {"w/part_1": values["w"][2:],
                                         "w/part_0/.slot/velocity": values["w"]},
                              ps_metadata(name, 0, 2))
                write_tensors(paths[1], {"w/part_0": values["w"][:2] + (name == "step-9-g2-r1"),
                                         "b/part_0": values["b"]}, ps_metadata(name, 1, 2))
                write_manifest(
                    checkpoint, [{"name": "w", "shape": [3, 2]}, {"name": "b", "shape": []}],
                    [{"name": "w/part_1", "variable": 0, **rows_of(2, 3)},
                     {"name": "b/part_0", "variable": 1, **rows_of(0, 1)},
                     {"name": "w/part_0", "variable": 0, **rows_of(0, 2)}], paths)
            loaded = paracord.load(folder)
            self.assertEqual(loaded["w"].tolist(), values["w"].tolist())
            self.assertEqual(sorted(loaded), ["b", "w"])
            with self.assertRaisesRegex(paracord.ProgramError, "no checkpoint"):
                paracord.load(folder + "/checkpoints")

    def test_a_url_is_refused_by_its_scheme_and_makes_no_file(self):
        import paracord

        here = os.getcwd()
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)
            try:
                for call in (lambda: paracord.load("s3://models/job"),
                             lambda: paracord.save("s3://models/w.safetensors", {"w": [1.0]}),
                             lambda: paracord.save("gs://w.safetensors", {"w": [1.0]})):
                    with self.assertRaisesRegex(paracord.ProgramError, r"(s3|gs):// is none"):
                        call()
                self.assertEqual(os.listdir(directory), [])
            finally:
                os.chdir(here)

    def test_arrays_keep_their_types(self):
        import numpy
        import paracord

        class Tensor:  # as one of PyTorch that needs its gradient
            def detach(self):
                return numpy.ones(2, "f4")

        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/a.safetensors"
            ids = numpy.array([2**53 + 1, -1])
            paracord.save(path, {"ids": ids, "half": numpy.float16([1.5]), "one": 7.25,
                                 "layers": [{"kernel": numpy.ones((2, 0), "f4")}, Tensor()],
                                 "other": numpy.array([258], ">i4"), "list": [[1.5], [2]]})
            loaded = paracord.load(path)
            self.assertEqual(loaded["ids"].tolist(), ids.tolist())
            self.assertEqual({name: str(array.dtype) for name, array in loaded.items()}, {
                "ids": "int64", "half": "float16", "one": "float64", "layers/0/kernel": "float32",
                "layers/1": "float32", "other": "int32", "list": "float64"})
            self.assertEqual(loaded["other"].tolist(), [258])
            loaded["ids"][0] = 5
            for wrong, why in ((numpy.complex64(1), "w is complex64, and paracord.save writes arr"),
                               ("text", "w is str"), (None, "w is NoneType"),
                               ([[1, 2], [3]], "w is list")):
                with self.assertRaisesRegex(paracord.ProgramError, why):
                    paracord.save(path, {"w": wrong})
            with open(path, "wb") as file:
                file.write(struct.pack("<Q", 4) + b"{{{{")
            with self.assertRaisesRegex(paracord.ProgramError, path + ": is no safetensors"):
                paracord.load(path)

    def test_a_growing_table_is_its_ids_and_their_rows(self):
        import numpy
        import paracord

        large = (1 << 63) + 1
        with tempfile.TemporaryDirectory() as folder:
            b = numpy.float32([7])
            write_checkpoint(folder, "step-5-g1-r1", {"user/part_0": {}, "user/part_1": {}}, [
                {"user/part_0/.slot/rows": table_rows((large, 1), (4, 2)), "b/part_0": b},
                {"user/part_1/.slot/rows": table_rows((3, 3))}])
            loaded = paracord.load(folder)
            self.assertEqual(sorted(loaded), ["b", "user/ids", "user/rows"])
            self.assertEqual(loaded["user/ids"].dtype, "int64")
            self.assertEqual(loaded["user/ids"].view("uint64").tolist(), [3, 4, large])
            for array in loaded.values():
                array[...] = array + 1  # they are copies
            loaded = paracord.load(folder)
            self.assertEqual(loaded["user/rows"].tolist(), [[3, 4, 5], [2, 3, 4], [1, 2, 3]])
            # The next one has of the first partition what changed, of the other all.
            tables = {"user/part_0": {"delta": True}, "user/part_1": {}}
            write_checkpoint(folder, "step-9-g1-r2", tables, [
                {"user/part_0/.slot/rows": table_rows((6, 6), (4, 5)), "b/part_0": b,
                 "user/part_0/.slot/removed": numpy.uint64([large]).view(numpy.uint8)
                 .reshape(1, 8)},
                {"user/part_1/.slot/rows": table_rows()}], base="step-5-g1-r1", now=9, rows=2)
            loaded = paracord.load(folder)
            self.assertEqual(loaded["user/ids"].tolist(), [4, 6])
            self.assertEqual(loaded["user/rows"].tolist(), [[5, 6, 7], [6, 7, 8]])
            # Whatever does not fit together is refused.
            for name, more, why in (
                    ("step-10-g1-r3", {"since": 8, "rows": 2}, "does not continue .*step-5-g1-r1"),
                    ("step-11-g1-r4", {"rows": 4}, "has 3 rows after the changes, .* have 4")):
                write_checkpoint(folder, name, {"user/part_0": {"delta": True}}, [
                    {"user/part_0/.slot/rows": table_rows((6, 6)), "b/part_0": b,
                     "user/part_0/.slot/removed": numpy.zeros((0, 8), numpy.uint8)}],
                    base="step-5-g1-r1", now=9, **more)
                with self.assertRaisesRegex(paracord.ProgramError, why):
                    paracord.load(folder)
            part = folder + "/checkpoints/step-5-g1-r1/ps-00001-of-00002.safetensors"
            with open(part, "r+b") as file:
                file.seek(-2, os.SEEK_END)
                file.write(b"?")
            with self.assertRaisesRegex(paracord.ProgramError, part + ": is damaged"):
                paracord.load(folder + "/checkpoints/step-9-g1-r2")
            shutil.rmtree(folder + "/checkpoints/step-5-g1-r1")
            missing = "step-5-g1-r1' before it is missing"
            with self.assertRaisesRegex(paracord.ProgramError, missing):
                paracord.load(folder)

    def test_a_result_is_the_best_or_the_newest_healthy_checkpoint_with_averages(self):
        import numpy
        from paracord._files import job_of, result_of

        def write(name, value, **more):
            directory = f"{folder}/checkpoints/{name}"
            os.makedirs(directory)
            path = directory + "/ps-00000-of-00001.safetensors"
            write_tensors(path, {"b/part_0": numpy.float32([value]),
                                 "b/part_0/.slot/average": numpy.float32([-value])},
                          ps_metadata(name, 0, 1))
            write_manifest(directory, [{"name": "b", "shape": [1]}],
                           [{"name": "b/part_0", "variable": 0, **rows_of(0, 1)}], [path],
                           job=json.dumps({"name": name}), **more)

        with tempfile.TemporaryDirectory() as folder:
            write("step-1-g1-r1", 1, healthy=True)
            write("step-2-g1-r2", 2, healthy=True)
            write("step-3-g1-r3", 3, healthy=False)
            self.assertEqual(result_of(folder)[0]["b"].tolist(), [-2])
            self.assertEqual(job_of(folder), {"name": "step-2-g1-r2"})
            write("step-4-g1-r4", 4, complete=True,
                  summary={"best": {"checkpoint": "step-1-g1-r1"}})
            self.assertEqual(result_of(folder)[0]["b"].tolist(), [-1])
            newest = folder + "/checkpoints/step-4-g1-r4"
            self.assertEqual(result_of(newest), ({"b": [-4]}, []))

    def test_a_flipped_bit_of_a_chain_is_refused_or_changes_nothing(self):
        import numpy
        import paracord

        with tempfile.TemporaryDirectory() as folder:
            tables = {"user/part_0": {}, "user/part_1": {}}
            b = numpy.float32([7])
            write_checkpoint(folder, "step-5-g1-r1", tables, [
                {"user/part_0/.slot/rows": table_rows((9, 1), (4, 2)), "b/part_0": b},
                {"user/part_1/.slot/rows": table_rows((3, 3))}])
            write_checkpoint(folder, "step-9-g1-r2", {"user/part_0": {"delta": True},
                                                      "user/part_1": {}}, [
                {"user/part_0/.slot/rows": table_rows((6, 6)), "b/part_0": b,
                 "user/part_0/.slot/removed": numpy.zeros((0, 8), numpy.uint8)},
                {"user/part_1/.slot/rows": table_rows((3, 4))}],
                base="step-5-g1-r1", now=9, rows=3)
            newest = folder + "/checkpoints/step-9-g1-r2"
            want = {name: array.tolist() for name, array in paracord.load(newest).items()}
            self.assertEqual(want["user/ids"], [3, 4, 6, 9])
            flips = refused = 0
            for directory, _, names in os.walk(folder):
                for path in (os.path.join(directory, name) for name in names):
                    with open(path, "rb") as file:
                        sound = file.read()
                    # One bit of each byte, another one from byte to byte, or every bit.
                    for bit in range(0, 8 * len(sound), 1 if EVERY_BIT else 9):
                        damaged = bytearray(sound)
                        damaged[bit // 8] ^= 1 << bit % 8
                        with open(path, "wb") as file:
                            file.write(damaged)
                        flips += 1
                        try:
                            loaded = paracord.load(newest)
                        except paracord.ProgramError as error:
                            refused += 1
                            self.assertIn(os.path.basename(directory), str(error))
                            continue
                        self.assertEqual(
                            {name: array.tolist() for name, array in loaded.items()}, want,
                            f"bit {bit} of {path}")
                    with open(path, "wb") as file:
                        file.write(sound)
            self.assertEqual(refused, flips)

    def test_a_manifest_that_is_not_what_it_says_is_refused_by_its_name(self):
        import numpy
        import paracord

        with tempfile.TemporaryDirectory() as folder:
            write_checkpoint(folder, "step-5-g1-r1", {"user/part_0": {}}, [
                {"user/part_0/.slot/rows": table_rows((1, 1)), "b/part_0": numpy.float32([7])}])
            sound = folder + "/checkpoints/step-5-g1-r1"
            manifest = sound + "/MANIFEST.json"
            with open(manifest, encoding="utf-8") as file:
                said = json.load(file)
            said.pop("manifest_crc32c")

            def write(**other):
                with open(manifest, "w", encoding="utf-8") as file:
                    body = json.dumps({**said, **other}, indent=1)[:-2]
                    file.write(f'{body},\n "manifest_crc32c": "{crc_of(body.encode())}"\n}}\n')

            b = {"name": "b/part_0", "variable": 1}
            user = said["partitions"][0]
            for other, why in (
                    ({"min_reader_version": 7}, "needs a reader of format 7, and .* reads 6"),
                    ({"format": "other"}, "is no manifest"),
                    ({"step": 6}, "is the manifest of step-6-g1-r1"),
                    ({"run_id": "other"}, "is of another checkpoint: its run_id is 'run'"),
                    ({"files": []}, "no file has"),
                    ({"files": 7}, "is damaged"),
                    ({"partitions": [user]}, "b has partitions of 0 of 1 rows"),
                    ({"partitions": [user, {**b, **rows_of(1, 2)}]}, "does not follow 0 rows"),
                    ({"partitions": [user, {**b, "variable": 4, **rows_of(0, 1)}]}, "is damaged"),
                    ({"partitions": [{**user, "name": "user/part_1"}, {**b, **rows_of(0, 1)}]},
                     "is damaged"),
                    ({"variables": [said["variables"][0], {"name": "b", "shape": [1, 2]}]},
                     r"b/part_0 has the shape \[1\], and its manifest says \[1, 2\]")):
                write(**other)
                with self.subTest(why), self.assertRaisesRegex(paracord.ProgramError, why):
                    paracord.load(folder)
            write()
            self.assertEqual(paracord.load(folder)["user/ids"].tolist(), [1])
            shutil.move(sound, folder + "/checkpoints/step-7-g1-r1")
            with self.assertRaisesRegex(paracord.ProgramError, "is the manifest of step-5-g1-r1"):
                paracord.load(folder)

    def test_changed_rows_of_a_fixed_table_are_put_over_the_checkpoint_before(self):
        import numpy
        import paracord

        def write(folder, name, first, second, continued=None, **since):
            directory = f"{folder}/checkpoints/{name}"
            os.makedirs(directory)
            path = directory + "/ps-00000-of-00001.safetensors"
            updates = identity_of(name)["step"]
            table = {"now": 0, "steps": True, "fixed": True, "rows": 2, "since": since}
            delta = {"delta": True} if continued else {}
            write_tensors(path, {**first, **second}, {**ps_metadata(name, 0, 1), **{
                "partition:user/part_0": json.dumps({"updates": updates,
                                                     **({"table": table} if continued else {})}),
                "partition:user/part_1": json.dumps({"updates": updates})}})
            write_manifest(
                directory, [{"name": "user", "shape": [4, 3], "table": {"kind": "fixed"}}],
                [{"name": "user/part_0", "variable": 0, **rows_of(0, 2), **delta},
                 {"name": "user/part_1", "variable": 0, **rows_of(2, 4)}], [path],
                **({"base": continued, "min_reader_version": 5} if continued else {}))
            return directory

        with tempfile.TemporaryDirectory() as folder:
            values = numpy.arange(12, dtype="f4").reshape(4, 3)
            write(folder, "step-5-g1-r1", {"user/part_0": values[:2]}, {"user/part_1": values[2:]})
            delta = write(folder, "step-9-g1-r2", {"user/part_0/.slot/rows": table_rows((1, 70))},
                          {"user/part_1": values[2:] + 100}, "step-5-g1-r1", now=0, updates=5,
                          base="step-5-g1-r1")
            loaded = paracord.load(folder)["user"].tolist()
            self.assertEqual(loaded, [[0, 1, 2], [70, 71, 72], [106, 107, 108], [109, 110, 111]])
            wrong = write(folder, "step-10-g1-r3", {"user/part_0/.slot/rows": table_rows((2, 70))},
                          {"user/part_1": values[2:]}, "step-9-g1-r2", now=0, updates=9,
                          base="step-9-g1-r2")
            with self.assertRaisesRegex(paracord.ProgramError, f"{wrong}: user/part_0 has rows"):
                paracord.load(wrong)
            other = write(folder, "step-11-g1-r4", {"user/part_0/.slot/rows": table_rows((1, 70))},
                          {"user/part_1": values[2:]}, "step-9-g1-r2", now=0, updates=8,
                          base="step-9-g1-r2")
            with self.assertRaisesRegex(paracord.ProgramError, "does not continue"):
                paracord.load(other)
            shutil.rmtree(folder + "/checkpoints/step-5-g1-r1")
            with self.assertRaisesRegex(paracord.ProgramError, f"{delta}: .*is missing"):
                paracord.load(delta)

    def test_rows_that_have_expired_are_left_out(self):
        import numpy
        import paracord

        table = {"expire_batches": 10}
        with tempfile.TemporaryDirectory() as folder:
            b = numpy.float32([7])
            write_checkpoint(folder, "step-5-g1-r1", {"user/part_0": {}}, [
                {"user/part_0/.slot/rows": table_rows((1, 1, 2), (2, 2, 13), (3, 3, 3), (4, 4, 5)),
                 "b/part_0": b}], now=13, table=table)
            loaded = paracord.load(folder)
            self.assertEqual(loaded["user/ids"].tolist(), [2, 3, 4])
            self.assertEqual(loaded["user/rows"].tolist(), [[2, 3, 4], [3, 4, 5], [4, 5, 6]])
            # By the next one 3 has been touched again, and 4 has expired without a change.
            write_checkpoint(folder, "step-9-g1-r2", {"user/part_0": {"delta": True}}, [
                {"user/part_0/.slot/rows": table_rows((3, 8, 16)), "b/part_0": b,
                 "user/part_0/.slot/removed": numpy.zeros((0, 8), numpy.uint8)}],
                base="step-5-g1-r1", now=16, table=table, since=13, rows=4)
            loaded = paracord.load(folder)
            self.assertEqual(loaded["user/ids"].tolist(), [2, 3])
            self.assertEqual(loaded["user/rows"].tolist(), [[2, 3, 4], [8, 9, 10]])
            # Numbers of batches have 31 bits, and go on from 0.
            write_checkpoint(folder, "step-10-g1-r3", {"user/part_0": {}}, [
                {"user/part_0/.slot/rows": table_rows((1, 1, 2**31 - 8), (2, 2, 2**31 - 9)),
                 "b/part_0": b}], now=2, table=table)
            self.assertEqual(paracord.load(folder)["user/ids"].tolist(), [1])


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    skipped = len(program.result.skipped)
    if skipped and program.result.wasSuccessful():
        print(f"skipped: {skipped} tests, for want of NumPy")
    sys.exit(not program.result.wasSuccessful())

"""The Python package's conversion of Parquet, ORC and Feather."""

import csv
import datetime
import decimal
import importlib.util
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
HAS_PYARROW = all(importlib.util.find_spec(name) for name in ("numpy", "pyarrow"))
PROGRAMS = os.environ.get("PARACORD_PROGRAMS")
WORDS = ["one", 'a "quote", a comma', "a\nline", None, ""]


def table(rows=70000, texts=("a", "b")):
    """Integers over all 64 bits, nulls, lists, and what must not become something else."""
    import pyarrow
    return pyarrow.table({
        "user": pyarrow.array([i * 1099511628211 % 2**64 - 2**63 for i in range(rows)],
                              pyarrow.int64()),
        "item": pyarrow.array([2**64 - 1 - i for i in range(rows)], pyarrow.uint64()),
        "price": pyarrow.array([None if i % 10 == 3 else i / 3 for i in range(rows)],
                               pyarrow.float32()),
        "word": pyarrow.array([WORDS[i % 5] for i in range(rows)]).dictionary_encode(),
        "seen": pyarrow.array([None if i % 7 == 5 else list(range(i, i + i % 4))
                               for i in range(rows)], pyarrow.list_(pyarrow.int64())),
        "tags": pyarrow.array([list(texts[:i % 3]) for i in range(rows)]),
        "flag": pyarrow.array([i % 2 == 0 for i in range(rows)]),
        "when": pyarrow.array([datetime.datetime(2026, 1, 1) + datetime.timedelta(microseconds=i)
                               for i in range(rows)]),
        "cost": pyarrow.array([decimal.Decimal(i) / 100 for i in range(rows)],
                              pyarrow.decimal128(12, 2)),
        "clicked": pyarrow.array([i % 2 for i in range(rows)], pyarrow.int8()),
    })


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """The length-delimited fields of a message."""
    at, found = 0, []
    while at < len(data):
        key, at = varint(data, at)
        size, at = varint(data, at)
        found.append((key >> 3, data[at:at + size]))
        at += size
    return found


def records(path):
    """The features of each Example of a file, by name."""
    with open(path, "rb") as file:
        data = file.read()
    at, found = 0, []
    while at < len(data):
        size, = struct.unpack_from("<Q", data, at)
        example = {}
        for _, entry in fields(fields(data[at + 12:at + 12 + size])[0][1]):
            name, feature = (part for _, part in fields(entry))
            (kind, values), = fields(feature)
            if kind == 1:
                values = [value for _, value in fields(values)]
            elif kind == 2:
                packed = fields(values)[0][1]
                values = list(struct.unpack(f"<{len(packed) // 4}f", packed))
            else:
                packed, place, values = fields(values)[0][1], 0, []
                while place < len(packed):
                    value, place = varint(packed, place)
                    values.append(value)
            example[name.decode()] = values
        found.append(example)
        at += 16 + size
    return found


@unittest.skipUnless(HAS_PYARROW, "no pyarrow")
class Convert(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def convert(self, *arguments):
        ran = subprocess.run(
            [sys.executable, "-m", "paracord.convert", *arguments], cwd=self.folder.name, text=True,
            capture_output=True, env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")})
        return ran

    def converted(self, *arguments):
        ran = self.convert(*arguments)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return json.loads(ran.stdout)["train"]

    def rows(self, name):
        with open(self.path(name), newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def check_rows(self, rows, of):
        self.assertEqual(len(rows), of.num_rows)
        whole = of.to_pylist()
        for row, before in zip(rows, whole):
            self.assertEqual(int(row["user"]), before["user"])
            self.assertEqual(int(row["item"]), before["item"])
            if before["price"] is None:
                self.assertEqual(row["price"], "")
            else:
                self.assertEqual(struct.pack("f", float(row["price"])),
                                 struct.pack("f", before["price"]))
            self.assertEqual(row["word"], before["word"] or "")
            self.assertEqual(row["seen"], "|".join(map(str, before["seen"] or [])))
            self.assertEqual(row["flag"], str(int(before["flag"])))
            self.assertEqual(decimal.Decimal(row["cost"]), before["cost"])
        self.assertEqual(int(rows[7]["when"]), 1767225600000007)

    def test_parquet_becomes_csv_with_every_value_as_it_was(self):
        import pyarrow.parquet
        whole = table()
        pyarrow.parquet.write_table(whole, self.path("a.parquet"), row_group_size=20000)
        data = self.converted("a.parquet", "out", "--jobs", "2")
        self.check_rows(self.rows("out/a.csv"), whole)
        specs = {spec["column"]: spec for spec in data["features"]}
        self.assertEqual(data["label"], "clicked")
        self.assertEqual(specs["user"], {"column": "user", "kind": "id", "input": "user"})
        self.assertEqual(specs["price"], {"column": "price", "default": 0, "input": "numbers"})
        self.assertEqual(specs["word"]["default"], "")
        self.assertEqual((specs["seen"]["separator"], specs["seen"]["length"]), ("|", 3))
        self.assertEqual(data["files"], [os.path.realpath(self.path("out/a.csv"))])
        self.assertEqual(os.listdir(self.path("out")), ["a.csv"])

    def test_orc_and_feather_become_the_same(self):
        import pyarrow.feather
        import pyarrow.orc
        import pyarrow.parquet
        whole = table()
        pyarrow.parquet.write_table(whole, self.path("p.parquet"))
        pyarrow.feather.write_feather(whole, self.path("f.feather"), chunksize=20000)
        plain = whole.drop_columns(["item"]).set_column(  # ORC has no unsigned numbers
            2, "word", whole["word"].combine_chunks().dictionary_decode())
        pyarrow.orc.write_table(plain, self.path("o.orc"))
        self.converted("p.parquet", "f.feather", "out")
        self.converted("o.orc", "out")
        self.assertEqual(self.rows("out/p.csv"), self.rows("out/f.csv"))
        without = [{k: v for k, v in row.items() if k != "item"} for row in self.rows("out/p.csv")]
        self.assertEqual(self.rows("out/o.csv"), without)

    def test_lists_with_bars_get_another_separator(self):
        import pyarrow.parquet
        pyarrow.parquet.write_table(table(100), self.path("a.parquet"))
        pyarrow.parquet.write_table(table(100, ("a|b", "c")), self.path("b.parquet"))
        data = self.converted("a.parquet", "b.parquet", "out")
        tags, = (spec for spec in data["features"] if spec["column"] == "tags")
        self.assertEqual(tags["separator"], "\x1f")
        self.assertEqual(self.rows("out/b.csv")[2]["tags"], "a|b\x1fc")
        self.assertEqual(self.rows("out/a.csv")[2]["tags"], "a\x1fb")

    def test_records_have_every_value_as_it_was(self):
        import pyarrow.parquet
        whole = table(3000)
        pyarrow.parquet.write_table(whole, self.path("a.parquet"))
        data = self.converted("a.parquet", "out", "--to", "tfrecord")
        found = records(self.path("out/a.tfrecord"))
        self.assertEqual(len(found), 3000)
        for row, before in zip(found, whole.to_pylist()):
            self.assertEqual(row["user"], [before["user"] % 2**64])
            self.assertEqual(row["item"], [before["item"]])
            self.assertEqual(row.get("price"), None if before["price"] is None
                             else [before["price"]])
            self.assertEqual(row.get("word"), None if before["word"] is None
                             else [before["word"].encode()])
            self.assertEqual(row["seen"], before["seen"] or [])
        specs = {spec["name"]: spec for spec in data["features"]}
        self.assertEqual(specs["seen"], {"name": "seen", "shape": [3], "pad": 0, "input": "seen"})

    def test_what_cannot_be_converted_is_named(self):
        import pyarrow
        import pyarrow.parquet

        def refuses(words, arrays, *more):
            pyarrow.parquet.write_table(pyarrow.table(arrays), self.path("x.parquet"))
            ran = self.convert("x.parquet", "out", *more)
            self.assertEqual((ran.returncode, ran.stdout), (2, ""))
            self.assertIn(words, ran.stderr)
            self.assertEqual(os.listdir(self.path("out")) if os.path.isdir(self.path("out"))
                             else [], [])

        one = [1, 2]
        refuses("column 'at' is struct<x: int64>", {"at": [{"x": 1}, {"x": 2}], "y": one})
        refuses("'n' has lists with a null", {"n": [[1, None], [2]], "y": one})
        refuses("--label z: there are the columns a, y", {"a": one, "y": one}, "--label", "z")
        refuses("column 'b' is binary: --to tfrecord", {"b": [b"x", b"y"], "y": one})
        refuses("with both | and U+001F", {"t": [["a|b"], ["c\x1fd"]], "y": one})
        with open(self.path("a.avro"), "wb") as file:
            file.write(b"Obj\x01\x04")
        ran = self.convert("a.avro", "out")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("a.avro: is Avro", ran.stderr)

    @unittest.skipUnless(PROGRAMS, "PARACORD_PROGRAMS does not name the folder of the programs")
    def test_the_entry_is_one_that_validate_takes(self):
        import pyarrow.parquet
        whole = table(500).select(["user", "price", "seen", "flag", "clicked"])
        pyarrow.parquet.write_table(whole, self.path("a.parquet"))
        layers = [("user", "Embedding", [1]), ("seen", "Embedding", [3])]
        model = {"class_name": "Functional", "config": {"name": "m", "layers": [
            {"class_name": "InputLayer", "name": name, "inbound_nodes": [],
             "config": {"name": name, "batch_shape": [None, size]}}
            for name, size in (("user", 1), ("numbers", 2), ("seen", 3))], "input_layers": [
                ["user", 0, 0], ["numbers", 0, 0], ["seen", 0, 0]],
            "output_layers": [["out", 0, 0]]}}
        for name, kind, _ in layers:
            model["config"]["layers"] += [
                {"class_name": kind, "name": name + "_rows", "config": {
                    "name": name + "_rows", "input_dim": 4, "output_dim": 2},
                 "inbound_nodes": [[[name, 0, 0, {}]]]},
                {"class_name": "Flatten", "name": name + "_flat", "config": {
                    "name": name + "_flat"}, "inbound_nodes": [[[name + "_rows", 0, 0, {}]]]}]
        model["config"]["layers"] += [
            {"class_name": "Concatenate", "name": "all", "config": {"name": "all"},
             "inbound_nodes": [[[name, 0, 0, {}] for name in
                                ("user_flat", "seen_flat", "numbers")]]},
            {"class_name": "Dense", "name": "out", "config": {
                "name": "out", "units": 1, "activation": "sigmoid"},
             "inbound_nodes": [[["all", 0, 0, {}]]]}]
        for to in ("tfrecord", "csv"):
            data = self.converted("a.parquet", "out", "--to", to)
            job = {"model": model, "data": {"train": data}, "loss": "binary_crossentropy",
                   "optimizer": "adagrad", "tables": {
                       "user_rows": {"kind": "growing"}, "seen_rows": {"kind": "growing"}}}
            with open(self.path("job.json"), "w") as file:
                json.dump(job, file)
            ran = subprocess.run([os.path.join(PROGRAMS, "paracord"), "validate", "--batch",
                                  self.path("job.json")], capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn("500 records", ran.stdout)
        job["data"]["train"]["files"] = [self.path("a.parquet")]
        with open(self.path("job.json"), "w") as file:
            json.dump(job, file)
        ran = subprocess.run([os.path.join(PROGRAMS, "paracord"), "validate",
                              self.path("job.json")], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("Parquet file; `python3 -m paracord.convert", ran.stderr)


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    skipped = len(program.result.skipped)
    if skipped and program.result.wasSuccessful():
        print(f"skipped: {skipped} tests, for want of pyarrow")
    sys.exit(not program.result.wasSuccessful())

"""The Python package: a program as a child of a worker that this test plays, and files."""

import importlib.util
import json
import mmap
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
HAS_NUMPY = importlib.util.find_spec("numpy") is not None

LINEAR = """
import numpy as np, paracord
@paracord.numpy.program(
    variables=[paracord.Variable("w", (2, 3), "ones"), paracord.Variable("b", (3,)),
               paracord.Variable("seen", (2,), moving_average=0.5)],
    predict=lambda values, x: x @ values["w"] + values["b"], outputs=[paracord.Output((3,))])
def loss(values, x, y):
    error = x @ values["w"] + values["b"] - y
    if y[0, 0] == 7:
        return 0.0, {"w": np.zeros((3, 2)), "b": np.zeros(3), "seen": np.zeros(2)}
    if y[0, 0] == 8:
        raise KeyError("age")
    return float("nan") if y[0, 0] == 9 else (error**2).sum() / len(x), {
        "w": 2 * x.T @ error / len(x), "b": 2 * error.sum(axis=0) / len(x), "seen": x.mean(axis=0)}
paracord.serve(loss)
"""


TABLE = """
import numpy as np, paracord
@paracord.numpy.program(
    variables=[paracord.Variable("user", (10**9, 2), table=paracord.Table("", capacity=4)),
               paracord.Variable("b", (3,)), paracord.Variable("c", (2,))],
    predict=lambda values, ids: np.full((len(ids), 3), len(values["user"])),
    outputs=[paracord.Output((3,))])
def loss(values, ids, y):
    rows = values["user"]
    gradient = np.zeros_like(rows)
    np.add.at(gradient, ids, 1)
    return rows[ids].sum(), {"user": gradient, "b": np.zeros(3), "c": np.zeros(2)}
paracord.serve(loss)
"""
ROOM = 5  # rows of its table


class Worker:
    """The worker's side of proto/PROGRAM.md for a program of w, b and seen over x and y."""

    def __init__(self, code):
        import numpy

        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        memory = os.memfd_create("test")

        def become():
            for fd, to in ((os.dup(theirs.fileno()), 3), (os.dup(memory), 4)):
                os.dup2(fd, to + 60)
            os.dup2(63, 3)
            os.dup2(64, 4)

        environment = dict(os.environ, PARACORD_TASK="worker:0",
                           PYTHONPATH=os.path.join(ROOT, "python"))
        self.child = subprocess.Popen([sys.executable, "-c", code], preexec_fn=become,
                                      close_fds=False, env=environment)
        theirs.close()
        self.socket = ours
        self.hello = self.receive()
        os.ftruncate(memory, 4096)
        column = {"shape": [2], "offset": 1024, "name": "", "dtype": "float32"}
        target = {"shape": [3], "offset": 2048, "name": "", "dtype": "float32"}
        for kind, each in (("inputs", column), ("targets", target)):
            each["dtype"] = self.hello["dtypes"].get(kind, {}).get("", "float32")
        table = self.hello["variables"][0].get("table")
        if table:
            column["dtype"] = "int64"
        self.send({"layout": 1, "more": True, "values": [0], "gradients": [256],
                   "rows": [ROOM if table else None]})
        self.send({"layout": 1, "more": False, "values": [64, 128], "gradients": [320, 384],
                   "rows": [None, None],
                   "bytes": 4096, "batch": 4, "inputs": [column], "targets": [target],
                   "weights": [], "outputs": [3072]})
        self.memory = mmap.mmap(memory, 4096)
        os.close(memory)
        self.floats = numpy.frombuffer(self.memory, numpy.float32)
        self.ready = self.receive()

    def send(self, packet):
        self.socket.send(json.dumps(packet).encode())

    def receive(self):
        text = self.socket.recv(1 << 18)
        return json.loads(text) if text else None

    def ask(self, **packet):
        self.send(packet)
        return self.receive()

    def at(self, offset, *shape):
        import numpy

        return self.floats[offset // 4:][:int(numpy.prod(shape))].reshape(shape)

    def close(self):
        self.send({"do": "bye"})
        code = self.child.wait(20)
        self.socket.close()
        return code


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class NumpyProgram(unittest.TestCase):
    def setUp(self):
        self.worker = Worker(LINEAR)
        self.at = self.worker.at
        self.at(0, 2, 3)[:] = [[1, 2, 3], [4, 5, 6]]
        self.at(64, 3)[:] = 1
        self.at(1024, 2, 2)[:] = [[1, 0], [0, 1]]
        self.at(2048, 2, 3)[:] = 0

    def tearDown(self):
        self.assertEqual(self.worker.close(), 0)

    def test_says_what_it_is(self):
        hello = self.worker.hello
        self.assertEqual([v["name"] for v in hello["variables"]], ["w", "b", "seen"])
        self.assertEqual(hello["variables"][0]["shape"], [2, 3])
        self.assertFalse(hello["variables"][2]["trainable"])
        self.assertEqual(hello["outputs"], [{"name": "", "shape": [3]}])
        self.assertEqual(hello["metrics"], [])
        self.assertEqual(self.worker.ready, {"ready": True})

    def test_gradients_and_predictions(self):
        answer = self.worker.ask(do="gradients", key=2**64 - 1, examples=2)
        self.assertEqual(answer, {"loss": (4 + 9 + 16 + 25 + 36 + 49) / 2})
        self.assertEqual(self.at(256, 2, 3).tolist(), [[2, 3, 4], [5, 6, 7]])
        self.assertEqual(self.at(320, 3).tolist(), [7, 9, 11])
        self.assertEqual(self.at(384, 2).tolist(), [0.5, 0.5])
        self.assertEqual(self.worker.ask(do="predict", examples=2), {"done": True})
        self.assertEqual(self.at(3072, 2, 3).tolist(), [[2, 3, 4], [5, 6, 7]])

    def test_errors_are_the_batch_s_and_name_the_variable(self):
        for label, what in ((7, "the gradient of w has the shape (3, 2), the variable (2, 3)"),
                            (8, "KeyError: 'age'")):
            self.at(2048, 1)[:] = label
            answer = self.worker.ask(do="gradients", key=1, examples=2)
            self.assertEqual(answer, {"error": what})
        self.at(2048, 1)[:] = 9
        self.assertEqual(self.worker.ask(do="gradients", key=1, examples=2), {"loss": None})
        self.assertIn("lacks", self.worker.ask(do="dance", examples=2)["error"])


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class Integers(unittest.TestCase):
    def test_arrive_in_all_their_digits(self):
        import numpy

        dtypes = 'dtypes={"inputs": {"": "int64"}}, '
        worker = Worker(LINEAR.replace("variables=[", dtypes + "variables=[")
                        .replace("moving_average=0.5", "assigned=True")
                        .replace("x.mean(axis=0)", "(x % 1000).max(axis=0)"))
        self.assertEqual(worker.hello["dtypes"], {"inputs": {"": "int64"}})
        self.assertTrue(worker.hello["variables"][2]["assigned"])
        self.assertFalse(worker.hello["variables"][2]["trainable"])
        ids = numpy.frombuffer(worker.memory, numpy.int64, 4, 1024)
        ids[:] = [2**24 + 1, 5, 2**53 + 1, 7]
        worker.ask(do="gradients", key=1, examples=2)
        self.assertEqual(worker.at(384, 2).tolist(), [993, 7])
        self.assertEqual(worker.close(), 0)


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class Tables(unittest.TestCase):
    def test_have_the_rows_of_the_batch(self):
        import numpy

        worker = Worker(TABLE)
        self.assertEqual(worker.hello["variables"][0]["table"], {"columns": [""], "capacity": 4})
        self.assertEqual(worker.hello["variables"][0]["shape"], [10**9, 2])
        self.assertNotIn("table", worker.hello["variables"][1])
        ids = numpy.frombuffer(worker.memory, numpy.int64, 4, 1024)
        worker.at(0, ROOM, 2)[:] = [[0, 0], [1, 2], [10, 20], [9, 9], [9, 9]]
        worker.at(256, ROOM, 2)[:] = 7
        ids[:] = [2, 1, 2, 2]
        answer = worker.ask(do="gradients", key=1, examples=2, rows=[3])
        self.assertEqual(answer, {"loss": 93})
        self.assertEqual(worker.at(256, ROOM, 2).tolist(), [[0, 0], [1, 1], [3, 3], [7, 7], [7, 7]])
        self.assertEqual(worker.ask(do="predict", examples=1, rows=[4]), {"done": True})
        self.assertEqual(worker.at(3072, 3).tolist(), [4, 4, 4])
        self.assertEqual(worker.close(), 0)

    def test_are_trained_and_have_columns(self):
        import paracord

        with self.assertRaisesRegex(paracord.ProgramError, "names of the inputs"):
            paracord.Table()
        with self.assertRaisesRegex(paracord.ProgramError, "v is a table, and not trained"):
            paracord.Variable("v", (3,), trainable=False, table=paracord.Table("id"))


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class Waiting(unittest.TestCase):
    def test_a_child_that_waits_long_sleeps(self):
        worker = Worker(LINEAR)
        def seconds():
            with open(f"/proc/{worker.child.pid}/stat", encoding="ascii") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        worker.ask(do="predict", examples=2)
        before = seconds()
        for _ in range(5):
            time.sleep(0.1)
            worker.ask(do="predict", examples=2)
        self.assertLess(seconds() - before, 0.1)
        self.assertEqual(worker.close(), 0)


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class Alone(unittest.TestCase):
    def run_alone(self, code):
        environment = {k: v for k, v in os.environ.items() if k != "PARACORD_TASK"}
        environment["PYTHONPATH"] = os.path.join(ROOT, "python")
        return subprocess.run([sys.executable, "-c", code], env=environment, text=True,
                              capture_output=True, timeout=60)

    def test_tries_a_batch(self):
        data = ('paracord.serve(loss, data={"inputs": {"": np.ones((5, 2))}, '
                '"targets": {"": np.zeros((5, 3))}})')
        ran = self.run_alone(LINEAR.replace("paracord.serve(loss)", data))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("w (2, 3) trained", ran.stdout)
        self.assertIn("a batch of 5 examples has the loss", ran.stdout)
        wrong = data.replace("zeros((5, 3))", "full((5, 3), 7)")
        ran = self.run_alone(LINEAR.replace("paracord.serve(loss)", wrong))
        self.assertEqual(ran.returncode, 1)
        self.assertIn("the gradient of w has the shape (3, 2)", ran.stderr)

    def test_tries_a_batch_of_a_table(self):
        data = ('paracord.serve(loss, data={"inputs": {"": np.array([[5, 10**8], [5, 5]])}, '
                '"targets": {"": np.zeros((2, 3))}})')
        ran = self.run_alone(TABLE.replace("paracord.serve(loss)", data))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("user (1000000000, 2) trained, rows by", ran.stdout)
        self.assertIn("a batch of 2 examples has the loss", ran.stdout)

    def test_two_variables_of_one_name(self):
        ran = self.run_alone(LINEAR.replace('Variable("b"', 'Variable("w"'))
        self.assertIn("two variables 'w'", ran.stderr)


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


def told_of(path):
    """What a manifest says of a file."""
    with open(path, "rb") as file:
        data = file.read()
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return {"bytes": len(data), "crc32c": f"{crc ^ 0xffffffff:08x}"}


def write_checkpoint(folder, name, partitions, files, base=None, now=7, table=None, since=7,
                     rows=None):
    """A checkpoint of the growing table `user` in these partitions, and of b."""
    os.makedirs(f"{folder}/checkpoints/{name}")
    told = []
    for i, tensors in enumerate(files):
        path = f"{folder}/checkpoints/{name}/ps-{i:05d}-of-{len(files):05d}.safetensors"
        write_tensors(path, tensors, {
            f"partition:{p}": json.dumps({"updates": now + 1, "table": {
                "now": now, "steps": True, "since": {"now": since, "updates": since + 1},
                "rows": rows}})
            for p in partitions})
        told.append(told_of(path))
    manifest = {"files": told, "variables": [
        {"name": "user", "shape": [2, 3], "table": {"kind": "growing", **(table or {})}},
        {"name": "b", "shape": [1]}],
        "partitions": [{"name": p, "variable": 0, **more} for p, more in partitions.items()]}
    manifest["partitions"].append({"name": "b/part_0", "variable": 1})
    if base:
        manifest["base"] = base
    with open(f"{folder}/checkpoints/{name}/MANIFEST.json", "w", encoding="utf-8") as file:
        json.dump(manifest, file)


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
                at = "ps-{:05d}-of-00002.safetensors"
                paracord.save(f"{checkpoint}/{at.format(0)}", {
                    "w/part_1": values["w"][2:], "w/part_0/.slot/velocity": values["w"]})
                paracord.save(f"{checkpoint}/{at.format(1)}", {
                    "w/part_0": values["w"][:2] + (name == "step-9-g2-r1"), "b/part_0": 7})
                with open(checkpoint + "/MANIFEST.json", "w", encoding="utf-8") as file:
                    json.dump({"files": [told_of(f"{checkpoint}/{at.format(i)}") for i in (0, 1)],
                               "partitions": [
                        {"name": "w/part_1"}, {"name": "b/part_0"}, {"name": "w/part_0"}]}, file)
            loaded = paracord.load(folder)
            self.assertEqual(loaded["w"].tolist(), values["w"].tolist())
            self.assertEqual(sorted(loaded), ["b", "w"])
            with self.assertRaisesRegex(paracord.ProgramError, "no checkpoint"):
                paracord.load(folder + "/checkpoints")

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
            self.assertEqual(loaded["user/ids"].tolist(), [3, 4, large])
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

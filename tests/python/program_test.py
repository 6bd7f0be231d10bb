"""The Python package: a program as a child of a worker that this test plays."""

import importlib.util
import json
import mmap
import os
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
HAS_MYPY = HAS_NUMPY and importlib.util.find_spec("mypy") is not None

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
    if y[0, 0] == 10:
        raise ValueError(chr(0xd800) + "\N{EURO SIGN}" * 100000)
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
                   "weights": [],
                   "outputs": [3072 + 64 * i for i in range(len(self.hello["outputs"]))]})
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
class Hello(unittest.TestCase):
    def test_has_packets_of_what_a_socket_takes(self):
        import paracord

        class Large(paracord.Program):
            variables = [paracord.Variable(f"{i}/" + "n" * (i % 7 * 400), (1,) * 8)
                         for i in range(2000)]

        packets = Large().hello()
        self.assertLess(max(len(json.dumps(packet)) for packet in packets), 100 << 10)
        self.assertEqual([v["name"] for packet in packets for v in packet["variables"]],
                         [v.name for v in Large.variables])
        self.assertEqual([packet["more"] for packet in packets],
                         [True] * (len(packets) - 1) + [False])
        self.assertLess(len(packets), 50)

    def test_evaluates_batches_of_any_size_alone(self):
        import paracord

        class Own(paracord.Program):
            variables = [paracord.Variable("w", (1,))]

            def evaluate(self, values, batch):
                return 0.0

        self.assertEqual(Own().hello()[-1]["metrics"], ["loss"])
        Own.batches = [64]
        self.assertEqual(Own().hello()[-1]["metrics"], [])
        for batch in (0, 2.5, "64", True):
            with self.assertRaisesRegex(paracord.ProgramError, "batch is .* a number of examples"):
                paracord.numpy.program(variables=Own.variables, batch=batch)(lambda values: 0)


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
                            (8, "KeyError: 'age' (the batch has input '' float32 (2, 2), target '' "
                             "float32 (2, 3))")):
            self.at(2048, 1)[:] = label
            answer = self.worker.ask(do="gradients", key=1, examples=2)
            self.assertEqual(answer, {"error": what})
        self.at(2048, 1)[:] = 10  # texts that no packet can have
        error = self.worker.ask(do="gradients", key=1, examples=2)["error"]
        self.assertEqual(error, "ValueError: ?" + "\N{EURO SIGN}" * ((4096 - 13) // 3))
        self.at(2048, 1)[:] = 9
        self.assertEqual(self.worker.ask(do="gradients", key=1, examples=2), {"loss": None})
        self.assertIn("lacks", self.worker.ask(do="dance", examples=2)["error"])


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class Outputs(unittest.TestCase):
    TWO = 'outputs=[paracord.Output((3,), "mean"), paracord.Output((3,), "spread")])'

    def program(self, predict):
        return LINEAR.replace("outputs=[paracord.Output((3,))])", self.TWO).replace(
            'predict=lambda values, x: x @ values["w"] + values["b"]', "predict=" + predict)

    def test_several_are_written_each_to_its_place(self):
        worker = Worker(self.program("lambda values, x: (x @ values['w'], x @ values['w'] + 5)"))
        self.assertEqual(worker.ask(do="predict", examples=2), {"done": True})
        self.assertEqual(worker.at(3072, 2, 3).tolist(), [[0] * 3] * 2)
        self.assertEqual(worker.at(3072 + 64, 2, 3).tolist(), [[5] * 3] * 2)
        self.assertEqual(worker.close(), 0)

    def test_fewer_than_declared_are_refused(self):
        worker = Worker(self.program("lambda values, x: [x @ values['w']]"))
        self.assertEqual(
            worker.ask(do="predict", examples=2),
            {"error": "predict returns 1 arrays, and 2 outputs are declared ('mean', 'spread')"})
        self.assertEqual(worker.close(), 0)


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

    def test_a_penalty_on_all_rows_is_refused(self):
        import numpy

        worker = Worker(TABLE.replace("rows[ids].sum(),", "rows[ids].sum() + (rows**2).sum(),")
                        .replace("return rows", "gradient += 2 * rows; return rows"))
        numpy.frombuffer(worker.memory, numpy.int64, 4, 1024)[:] = [2, 1, 2, 2]
        worker.at(0, ROOM, 2)[:] = 3
        answer = worker.ask(do="gradients", key=1, examples=2, rows=[3])
        self.assertIn("computes something else when the tables ['user'] have", answer["error"])
        self.assertEqual(worker.close(), 0)

    def test_are_trained_and_have_columns(self):
        import paracord

        with self.assertRaisesRegex(paracord.ProgramError, "names of the inputs"):
            paracord.Table()
        with self.assertRaisesRegex(paracord.ProgramError, "v is a table, and not trained"):
            paracord.Variable("v", (3,), trainable=False, table=paracord.Table("id"))


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class Forks(unittest.TestCase):
    def test_end_with_the_program_and_have_no_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            fork = f"""
import os, time
if os.fork() == 0:
    try:
        os.fstat(3)
        there = "socket"
    except OSError:
        there = "none"
    with open({folder!r} + "/new", "w") as file:
        file.write(f"{{os.getpid()}} {{there}}")
    os.rename({folder!r} + "/new", {folder!r} + "/fork")
    time.sleep(60)
    os._exit(0)
"""
            worker = Worker(LINEAR.replace("paracord.serve(loss)", fork + "paracord.serve(loss)"))
            while not os.path.exists(folder + "/fork"):
                time.sleep(0.01)
            with open(folder + "/fork", encoding="ascii") as file:
                pid, there = file.read().split()
            self.assertEqual(there, "none")
            worker.child.kill()
            worker.child.wait(20)
            worker.socket.close()
            for _ in range(500):
                try:
                    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                        ended = file.read().rsplit(")", 1)[1].split()[0] in "ZX"
                except FileNotFoundError:
                    ended = True
                if ended:
                    break
                time.sleep(0.01)
            self.assertTrue(ended)


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
        ran = self.run_alone(LINEAR.replace("paracord.serve(loss)", data).replace(
            "Output((3,))", "Output((4,))"))
        self.assertIn("the output has the shape (5, 3) for 5 examples", ran.stderr)

    def test_tries_a_batch_of_a_table(self):
        data = ('paracord.serve(loss, data={"inputs": {"": np.array([[5, 10**8], [5, 5]])}, '
                '"targets": {"": np.zeros((2, 3))}})')
        ran = self.run_alone(TABLE.replace("paracord.serve(loss)", data))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("user (1000000000, 2) trained, rows by", ran.stdout)
        self.assertIn("a batch of 2 examples has the loss", ran.stdout)

    def test_says_which_argument_is_wrong_and_what_to_give(self):
        whole = ('paracord.serve(loss, data={"inputs": {"": np.ones((5, 2))}, '
                 '"targets": {"": np.zeros((5, 3))}})')
        right = LINEAR.replace("paracord.serve(loss)", whole)
        for old, new, why in (
                ("(2, 3), ", "6, ", "variable w has the shape 6: give a tuple of sizes"),
                ("(2, 3), ", "(2, 'x'), ", "variable w has the shape (2, 'x')"),
                ('"w", (', "3, (", "a variable has the name 3"),
                ('"ones"', "1.5", "variable w has the initializer 1.5: give a name, as in"),
                ("Output((3,))", "Output(3)", "an output has the shape 3: give a tuple"),
                ("moving_average=0.5", "table=7", "seen has the table 7: name the input"),
                ("variables=[", "dtypes={'input': {'': 'int64'}}, variables=[",
                 "dtypes has {'input': {'': 'int64'}}: it says int64 of columns of inputs, targ"),
                ("variables=[", "dtypes={'inputs': {'': 'int32'}}, variables=[",
                 "int32 of '' of inputs, which exports alone have: say int64"),
                ('"b": 2', '"bb": 2', "a gradient of 'bb', which is no variable; did you mean 'b'"),
                ("len(x), {", "len(x), 7, {", ", int, dict), and must return (mean loss,"),
                ('float("nan") if', "error.sum(axis=0) if y[0, 0] == 0 else 1.0 if",
                 "the loss is an array of shape (3,), and must be a number"),
                ('x @ values["w"] + values["b"], outputs', 'dict(a=x), outputs',
                 "a prediction is a dict, and must be a list"),
                ("serve(loss,", "serve(paracord.numpy.program,", "is given a function: give it wh"),
                ('data={"inputs"', 'data={"input"', "serve's data must be a batch's columns"),
                ("np.ones((5, 2))", "np.ones((4, 2))",
                 "columns of 4 examples ('' of inputs), 5 examples ('' of targets)")):
            self.assertIn(old, right)
            ran = self.run_alone(right.replace(old, new, 1))
            self.assertIn(why, ran.stderr)

    def test_two_variables_of_one_name(self):
        ran = self.run_alone(LINEAR.replace('Variable("b"', 'Variable("w"'))
        self.assertIn("two variables 'w'", ran.stderr)


@unittest.skipUnless(HAS_MYPY, "no mypy")
class Types(unittest.TestCase):
    def test_of_the_package_are_those_that_a_program_is_checked_by(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/train.py", "w", encoding="utf-8") as file:
                file.write(LINEAR + "reveal_type(loss)\nparacord.nothing\n"
                           "paracord.numpy.program(variables=3)\n")
            ran = subprocess.run(
                [sys.executable, "-m", "mypy", "--config-file", "/dev/null", "--follow-imports",
                 "silent", "--cache-dir", folder, folder + "/train.py"], text=True,
                capture_output=True, env=dict(os.environ, MYPYPATH=os.path.join(ROOT, "python")))
        for found in ('Revealed type is "paracord._program.Program"',
                      'Module has no attribute "nothing"', 'Argument "variables" to "program" has'):
            self.assertIn(found, ran.stdout)
        self.assertIn("Found 2 errors", ran.stdout)


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    skipped = len(program.result.skipped)
    if skipped and program.result.wasSuccessful():
        print(f"skipped: {skipped} tests, for want of NumPy or mypy")
    sys.exit(not program.result.wasSuccessful())

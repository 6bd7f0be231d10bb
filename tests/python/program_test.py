"""The Python package: a program as a child of a worker that this test plays, and files."""

import importlib.util
import json
import mmap
import os
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
HAS_TORCH = HAS_NUMPY and importlib.util.find_spec("torch") is not None
HAS_JAX = HAS_NUMPY and importlib.util.find_spec("jax") is not None
HAS_KERAS = HAS_JAX and importlib.util.find_spec("keras") is not None

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
        self.send({"layout": 1, "more": True, "values": [0], "gradients": [256]})
        self.send({"layout": 1, "more": False, "values": [64, 128], "gradients": [320, 384],
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

    def test_two_variables_of_one_name(self):
        ran = self.run_alone(LINEAR.replace('Variable("b"', 'Variable("w"'))
        self.assertIn("two variables 'w'", ran.stderr)


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
                    json.dump({"files": [{}, {}], "partitions": [
                        {"name": "w/part_1"}, {"name": "b/part_0"}, {"name": "w/part_0"}]}, file)
            loaded = paracord.load(folder)
            self.assertEqual(loaded["w"].tolist(), values["w"].tolist())
            self.assertEqual(sorted(loaded), ["b", "w"])
            with self.assertRaisesRegex(paracord.ProgramError, "no checkpoint"):
                paracord.load(folder + "/checkpoints")


@unittest.skipUnless(HAS_TORCH, "no PyTorch")
class TorchProgram(unittest.TestCase):
    def test_gradients_and_statistics(self):
        import numpy
        import paracord
        import torch

        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))

        @paracord.torch.program(model)
        def loss(model, x, y):
            return ((model(x) - y)**2).mean()

        names = [variable.name for variable in loss.variables]
        self.assertEqual(names, ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean",
                                 "1.running_var"])
        self.assertAlmostEqual(loss.variables[4].moving_average, 0.9)
        values = [numpy.full(v.shape, 0.5, numpy.float32) for v in loss.variables]
        gradients = [numpy.zeros(v.shape, numpy.float32) for v in loss.variables]
        loss.attach(values)
        x = numpy.array([[1, 2], [3, 5]], numpy.float32)
        batch = paracord.Batch(2, {"": x}, {"": numpy.zeros((2, 3), numpy.float32)}, {})
        self.assertGreater(loss.gradients(values, batch, gradients, lambda v: None), 0)
        self.assertTrue(numpy.allclose(gradients[4], [3.25] * 3))  # the mean of what it saw
        self.assertTrue((values[4] == 0.5).all())

    def test_assigned_buffers(self):
        import numpy
        import paracord
        import torch

        layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(2, 3))
        names = ["parametrizations.weight.0._u", "parametrizations.weight.0._v"]
        initial = {name: "random_normal" for name in [*names, "parametrizations.weight.original"]}

        @paracord.torch.program(layer, initial=initial, assigned=names,
                                dtypes={"targets": {"": "int64"}})
        def loss(model, x, y):
            return torch.nn.functional.cross_entropy(model(x), y)

        assigned = [v for v, variable in enumerate(loss.variables) if variable.assigned]
        self.assertEqual([loss.variables[v].name for v in assigned], names)
        values = [numpy.full(v.shape, 0.5, numpy.float32) for v in loss.variables]
        gradients = [numpy.full(v.shape, 9, numpy.float32) for v in loss.variables]
        loss.attach(values)
        batch = paracord.Batch(2, {"": numpy.ones((2, 2), numpy.float32)},
                               {"": numpy.array([0, 2])}, {})
        loss.gradients(values, batch, gradients, lambda v: None)
        for v in assigned:
            self.assertAlmostEqual(float(numpy.linalg.norm(gradients[v])), 1, places=5)
            self.assertTrue((values[v] == 0.5).all())


@unittest.skipUnless(HAS_JAX, "no JAX")
class JaxProgram(unittest.TestCase):
    def setUp(self):
        import numpy
        import paracord

        params = {"dense": {"kernel": numpy.random.rand(2, 3).astype("f4"),
                            "bias": numpy.zeros(3, "f4")}, "scales": [numpy.float32(2)]}

        @paracord.jax.program(
            params, initial={"*/kernel": "glorot_uniform"}, dtypes={"targets": {"": "int64"}},
            predict=lambda p, x: x @ p["dense"]["kernel"] + p["dense"]["bias"],
            outputs=[paracord.Output((3,))])
        def loss(p, x, y, key):
            import jax

            noise = 0 if key is None else jax.random.normal(key)
            error = x @ p["dense"]["kernel"] + p["dense"]["bias"] - y
            return (error**2).mean() * p["scales"][0] + noise

        self.program = loss
        self.values = [numpy.full(v.shape, 0.5, numpy.float32) for v in loss.variables]
        self.gradients = [numpy.zeros(v.shape, numpy.float32) for v in loss.variables]
        self.batch = paracord.Batch(2, {"": numpy.ones((2, 2), "f4")},
                                    {"": numpy.zeros((2, 3), numpy.int64)}, {}, key=2**64 - 1)

    def test_declares_the_tree(self):
        self.assertEqual([(v.name, v.shape) for v in self.program.variables],
                         [("dense/bias", (3,)), ("dense/kernel", (2, 3)), ("scales/0", ())])
        self.assertEqual(self.program.variables[2].initializer, {"name": "constant", "value": 2.0})
        self.assertEqual(self.program.variables[1].initializer, "glorot_uniform")

    def test_gradients_are_of_the_batch_and_its_key(self):
        def step():
            return self.program.gradients(self.values, self.batch, self.gradients, None)

        first = step()
        self.assertEqual(self.gradients[0].tolist(), [0.5] * 3)
        self.assertEqual(float(self.gradients[2]), 2.25)
        self.assertEqual(step(), first)
        self.batch.key = 1
        self.assertNotEqual(step(), first)
        self.assertEqual(self.program.evaluate(self.values, self.batch), 1.125)
        self.assertEqual(self.program.predict(self.values, self.batch)[0].tolist(), [[1.5] * 3] * 2)

    def test_what_jax_would_cut_off_and_what_nobody_can_draw_is_said(self):
        import numpy
        import paracord

        self.batch.targets[""][1, 2] = 2**31
        with self.assertRaisesRegex(paracord.ProgramError, "2147483648 does not fit"):
            self.program.gradients(self.values, self.batch, self.gradients, None)
        with self.assertRaisesRegex(paracord.ProgramError, "what w is drawn from"):
            paracord.jax.program({"w": numpy.arange(3, dtype="f4")})(lambda p, x: 0.0)


@unittest.skipUnless(HAS_KERAS, "no Keras on JAX")
class KerasProgram(unittest.TestCase):
    def setUp(self):
        import numpy
        import paracord.keras
        import keras

        layers = keras.layers
        self.model = keras.Sequential([
            keras.Input((4,)),
            layers.Dense(8, kernel_initializer=keras.initializers.VarianceScaling(
                2.0, "fan_out", "uniform"), kernel_regularizer=keras.regularizers.L2(0.5)),
            layers.BatchNormalization(momentum=0.9), layers.Dropout(0.5),
            layers.SpectralNormalization(layers.Dense(3, name="last"), name="norm")])
        self.program = paracord.keras.program(
            self.model, keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            initial={"*/vector_u": {"name": "truncated_normal", "stddev": 0.02}})
        random = numpy.random.default_rng(1)
        self.values = [random.uniform(0.1, 1, v.shape).astype("f4")
                       for v in self.program.variables]
        self.gradients = [numpy.full(v.shape, 9, "f4") for v in self.program.variables]
        self.x = random.uniform(0, 1, (6, 4)).astype("f4")
        self.batch = paracord.Batch(6, {"": self.x}, {"": numpy.array([0, 1, 2, 0, 1, 2], "f4")},
                                    {}, key=2**64 - 1)

    def step(self):
        return self.program.gradients(self.values, self.batch, self.gradients, None)

    def test_declares_variables_as_keras_draws_and_updates_them(self):
        found = {v.name.split("/", 1)[-1]: v for v in self.program.variables}
        self.assertEqual(found["kernel"].initializer, {
            "name": "variance_scaling", "scale": 2.0, "mode": 1, "distribution": 2})
        self.assertEqual(found["gamma"].initializer, {"name": "ones"})
        self.assertAlmostEqual(found["moving_mean"].moving_average, 0.9)
        self.assertTrue(found["vector_u"].assigned)
        self.assertEqual(len(found), 9)  # without the state of dropout
        self.assertEqual(self.program.outputs[0].shape, (3,))

    def test_gradients_are_of_the_batch_and_its_key(self):
        first, before = self.step(), [g.copy() for g in self.gradients]
        self.assertEqual(self.step(), first)
        for a, b in zip(before, self.gradients):
            self.assertEqual(a.tolist(), b.tolist())
        self.batch.key = 1
        self.assertNotEqual(self.step(), first)

    def test_statistics_are_what_the_batch_shows(self):
        import numpy

        self.step()
        names = [v.name.rsplit("/", 1)[-1] for v in self.program.variables]
        hidden = self.x @ self.values[0] + self.values[1]
        at = names.index("moving_mean")
        self.assertTrue(numpy.allclose(self.gradients[at], hidden.mean(axis=0), atol=1e-5))
        self.assertTrue(numpy.allclose(self.gradients[at + 1], hidden.var(axis=0), atol=1e-5))
        norm = numpy.linalg.norm(self.gradients[names.index("vector_u")])
        self.assertAlmostEqual(float(norm), 1, places=4)

    def test_a_loss_by_its_name_counts_weights(self):
        import numpy
        import keras
        import paracord.keras

        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        program = paracord.keras.program(model, "mean_squared_error")
        values = [numpy.zeros(v.shape, "f4") for v in program.variables]
        gradients = [numpy.zeros(v.shape, "f4") for v in program.variables]
        batch = paracord.Batch(2, {"": self.x[:2]}, {"": numpy.array([[1], [2]], "f4")},
                               {"": numpy.array([1, 0.5], "f4")})
        self.assertEqual(program.gradients(values, batch, gradients, None), (1 + 0.5 * 4) / 2)
        self.assertEqual(program.evaluate(values, batch), 1.5)
        self.assertEqual(gradients[1].tolist(), [-2 * (1 + 0.5 * 2) / 2])

    def test_inference_is_keras_own(self):
        import numpy

        states = iter(self.values[len(self.model.trainable_variables):])
        for variable, value in zip(self.model.trainable_variables, self.values):
            variable.assign(value)
        for variable in self.model.non_trainable_variables:
            if "seed" not in variable.path:
                variable.assign(next(states))
        expected = numpy.asarray(self.model(self.x, training=False))
        self.assertTrue(numpy.allclose(self.program.predict(self.values, self.batch)[0], expected,
                                       atol=1e-5))
        loss = float(self.program._loss(self.batch.targets[""], expected))
        loss += 0.5 * float((self.values[0]**2).sum())
        self.assertAlmostEqual(self.program.evaluate(self.values, self.batch), loss, places=3)


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    skipped = len(program.result.skipped)
    if skipped and program.result.wasSuccessful():
        print(f"skipped: {skipped} tests, for want of NumPy, PyTorch, JAX or Keras")
    sys.exit(not program.result.wasSuccessful())

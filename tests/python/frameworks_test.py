"""The Python package's programs of JAX and Keras."""

import importlib.util
import os
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
HAS_JAX = HAS_NUMPY and importlib.util.find_spec("jax") is not None
HAS_KERAS = HAS_JAX and importlib.util.find_spec("keras") is not None


def train_without_what_exports_need(code):
    """Runs code in a Python whose JAX lacks jax.export and jax.extend.mlir, as older ones do."""
    lacking = f"""
import sys
sys.path.insert(0, {os.path.join(ROOT, "python")!r})
import jax, numpy, paracord
{{}}
"""
    block = 'for name in ("jax.export", "jax.extend.mlir"): sys.modules[name] = None\n'
    return subprocess.run([sys.executable, "-c", lacking.format(code.replace("BLOCK", block))],
                          capture_output=True, text=True)


@unittest.skipUnless(HAS_JAX, "no JAX")
class JaxProgram(unittest.TestCase):
    def test_trains_without_what_exports_need(self):
        ran = train_without_what_exports_need("""
BLOCK
loss = paracord.jax.program({"w": numpy.zeros(2, "f4")})(lambda p, x: (p["w"] * x).sum())
gradients = [numpy.zeros(2, "f4")]
batch = paracord.Batch(1, {"": numpy.ones((1, 2), "f4")}, {}, {})
loss.gradients([numpy.ones(2, "f4")], batch, gradients, None)
print(gradients[0].tolist())
try:
    paracord.jax.export(loss, "/nowhere/a", inputs={"": (2,)}, targets={})
except ImportError:
    print("no export")
""")
        self.assertEqual(ran.stdout, "[1.0, 1.0]\nno export\n", ran.stderr)

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
        second = step()
        self.assertNotEqual(second, first)
        self.batch.key = 2**32 + 1  # all 64 bits count
        self.assertNotEqual(step(), second)
        self.assertEqual(self.program.evaluate(self.values, self.batch), 1.125)
        self.assertEqual(self.program.predict(self.values, self.batch)[0].tolist(), [[1.5] * 3] * 2)

    def test_tables_have_all_rows_that_there_is_room_for(self):
        import numpy
        import paracord

        @paracord.jax.program({"user": numpy.zeros((7, 2), "f4")},
                              tables={"user": ""})
        def loss(p, ids):
            return p["user"][ids].sum()

        self.assertTrue(loss.all_rows)
        self.assertEqual(loss.variables[0].table.columns, ("",))
        gradients = [numpy.zeros((4, 2), "f4")]
        batch = paracord.Batch(2, {"": numpy.array([1, 2])}, {}, {})
        loss.gradients([numpy.ones((4, 2), "f4")], batch, gradients, None)
        self.assertEqual(gradients[0][:, 0].tolist(), [0, 1, 1, 0])

    def test_tables_are_read_by_rows_alone(self):
        import numpy
        import paracord
        from paracord._tables import check_batch

        def square(p, ids, y):
            return ((p["user"][ids].sum(-1) * p["w"] - y)**2).mean()

        def check(loss):
            program = paracord.jax.program(
                {"user": numpy.zeros((9, 2), "f4"), "w": numpy.float32(1)},
                tables={"user": paracord.Table("")})(loss)
            random = numpy.random.default_rng(1)
            values = [random.uniform(-1, 1, (4, 2)).astype("f4"), numpy.float32(0.5)]
            check_batch(program, values, paracord.Batch(
                3, {"": numpy.array([2, 3, 1])}, {"": numpy.ones(3, "f4")}, {}))

        check(square)
        for loss in (lambda p, ids, y: square(p, ids, y) + 1e-5 * (p["user"]**2).sum(),
                     lambda p, ids, y: square(p, ids, y + 1e-3 * ids)):
            with self.assertRaisesRegex(paracord.ProgramError, "the model computes something"):
                check(loss)

    def test_what_jax_would_cut_off_and_what_nobody_can_draw_is_said(self):
        import numpy
        import paracord

        self.batch.targets[""][1, 2] = 2**31
        with self.assertRaisesRegex(paracord.ProgramError, "2147483648 does not fit"):
            self.program.gradients(self.values, self.batch, self.gradients, None)
        with self.assertRaisesRegex(paracord.ProgramError, "what w is drawn from"):
            paracord.jax.program({"w": numpy.arange(3, dtype="f4")})(lambda p, x: 0.0)
        # The way out that the error names.
        program = paracord.jax.program({"w": numpy.arange(3, dtype="f4")},
                                       initial={"w": "initial_weights"})(lambda p, x: 0.0)
        self.assertEqual(program.variables[0].initializer, "initial_weights")


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

    def test_trains_without_what_exports_need(self):
        ran = train_without_what_exports_need("""
import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
BLOCK
import paracord.keras
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
program = paracord.keras.program(model, "mean_squared_error")
print([tuple(v.shape) for v in program.variables])
""")
        self.assertEqual(ran.stdout, "[(2, 1), (1,)]\n", ran.stderr)

    def test_declares_variables_as_keras_draws_and_updates_them(self):
        found = {v.name.split("/", 1)[-1]: v for v in self.program.variables}
        self.assertEqual(found["kernel"].initializer, {
            "name": "variance_scaling", "scale": 2.0, "mode": 1, "distribution": 2})
        self.assertEqual(found["gamma"].initializer, {"name": "ones"})
        self.assertAlmostEqual(found["moving_mean"].moving_average, 0.9)
        self.assertTrue(found["vector_u"].assigned)
        self.assertEqual(len(found), 9)  # without the state of dropout
        self.assertEqual(self.program.outputs[0].shape, (3,))

    def test_averages_are_found_beside_other_states(self):
        import keras
        import paracord.keras

        layers = keras.layers

        def kinds(*before, momentum=0.9):
            model = keras.Sequential([
                keras.Input((4,)), *before, layers.Dense(3), layers.Dropout(0.5),
                layers.BatchNormalization(momentum=momentum, name="bn")])
            program = paracord.keras.program(model, "mean_squared_error",
                                             initial={"*/vector_u": "random_normal"})
            return {v.name: (v.moving_average, v.assigned) for v in program.variables
                    if not v.trainable}

        for momentum in (0.9, 0.5, 0.999999, 0.9999975):
            frozen = layers.BatchNormalization(name="frozen")
            frozen.trainable = False
            found = kinds(frozen, layers.SpectralNormalization(layers.Dense(3), name="norm"),
                          momentum=momentum)
            self.assertEqual(found.pop("norm/vector_u"), (0, True))
            self.assertEqual(found, {
                "frozen/gamma": (0, False), "frozen/beta": (0, False),
                "frozen/moving_mean": (0, False), "frozen/moving_variance": (0, False),
                "bn/moving_mean": (momentum, False), "bn/moving_variance": (momentum, False)})

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

    def test_constraints_are_declared_or_refused(self):
        import keras
        import paracord.keras

        def program(constraint):
            return paracord.keras.program(keras.Sequential([
                keras.Input((4,)), keras.layers.Dense(1, kernel_constraint=constraint, name="d")]),
                "mean_squared_error")

        kernel, bias = program("non_neg").variables
        self.assertEqual(kernel.to_json()["constraint"], "non_neg")
        self.assertNotIn("constraint", bias.to_json())
        with self.assertRaisesRegex(paracord.ProgramError,
                                    "layer 'd': d/kernel has the constraint MaxNorm, and var"):
            program("max_norm")

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
        print(f"skipped: {skipped} tests, for want of JAX or Keras")
    sys.exit(not program.result.wasSuccessful())

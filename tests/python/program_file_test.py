"""The program files that the Python package exports (program/PROGRAM_FILE.md)."""

import importlib.util
import json
import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
HAS_JAX = all(importlib.util.find_spec(name) is not None for name in ("numpy", "jax"))
HAS_KERAS = HAS_JAX and importlib.util.find_spec("keras") is not None


def _head_and_codes(path):
    import base64
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    return document, [base64.b64decode(module["code"]) for module in document["modules"]]


@unittest.skipUnless(HAS_KERAS, "no Keras on JAX")
class KerasProgramFile(unittest.TestCase):
    """What paracord.keras.export writes (program/PROGRAM_FILE.md)."""

    def export(self, path, **options):
        import paracord.keras
        import keras

        keras.backend.clear_session()
        layers = keras.layers
        model = keras.Sequential([
            keras.Input((4,)), layers.Dense(8, kernel_regularizer=keras.regularizers.L2(0.5)),
            layers.BatchNormalization(momentum=0.9), layers.Dropout(0.5), layers.Dense(3)])
        paracord.keras.export(model, "sparse_categorical_crossentropy", path, **options)

    def test_has_steps_for_the_plan_and_a_prediction_and_no_paths(self):
        with tempfile.TemporaryDirectory() as folder:
            one, other = os.path.join(folder, "one"), os.path.join(folder, "other")
            self.export(one, batch=16, records=40, weights=True)
            self.export(other, batch=16, records=40, weights=True)
            self.assertEqual(sorted(os.listdir(folder)), ["one", "other"])
            document, codes = _head_and_codes(one)
            self.assertEqual(_head_and_codes(other), (document, codes))
        self.assertEqual([(m["kind"], m["batch"]) for m in document["modules"]],
                         [("step", 16), ("step", 8), ("predict", 16)])
        self.assertEqual(document["targets"], [{"name": "", "shape": [], "dtype": "float32"}])
        self.assertEqual(len(document["weights"]), 1)
        self.assertEqual([v["moving_average"] for v in document["variables"]],
                         [0, 0, 0, 0, 0, 0, 0.9, 0.9])
        step = document["modules"][0]
        self.assertEqual(len(step["arguments"]), 8 + 3 + 1)
        self.assertEqual(len(step["results"]), 1 + 8)
        for code in codes:
            self.assertIn(document["stablehlo"].encode(), code[:40])
            self.assertNotIn(b".py", code)

    def test_integer_inputs_and_a_shape_of_the_target_are_declared(self):
        import paracord.keras
        import keras

        model = keras.Sequential([
            keras.Input((5,), dtype="int32"), keras.layers.Embedding(10, 4),
            keras.layers.Flatten(), keras.layers.Dense(1)])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a")
            paracord.keras.export(model, "mean_squared_error", path, batch=[8, 4], target_shape=())
            document, _ = _head_and_codes(path)
            self.assertEqual(document["inputs"], [{"name": "", "shape": [5], "dtype": "int32"}])
            self.assertEqual(document["targets"][0]["shape"], [])
            self.assertEqual([m["batch"] for m in document["modules"]], [8, 4, 8])
            with self.assertRaisesRegex(paracord.ProgramError, "jax_enable_x64"):
                paracord.keras.export(model, "mean_squared_error", path,
                                      dtypes={"inputs": {"": "int64"}})
            for dtypes, why in (({"inputs": {"user": "int32"}}, "'user' of inputs"),
                                ({"target": {"": "int32"}}, "'' of target"),
                                ({"weights": {"": "int32"}}, "'' of weights")):
                with self.assertRaisesRegex(paracord.ProgramError, why + ", which is no column"):
                    paracord.keras.export(model, "mean_squared_error", path, dtypes=dtypes)
            self.assertEqual(_head_and_codes(path)[0], document)  # it was left alone


@unittest.skipUnless(HAS_JAX, "no JAX")
class JaxProgramFile(unittest.TestCase):
    def test_is_of_the_function_and_its_prediction(self):
        import jax
        import numpy
        import paracord.jax

        def predict(params, x):
            return x @ params["w"]

        @paracord.jax.program({"w": numpy.zeros((4, 2), "f4")}, predict=predict,
                              outputs=[paracord.Output((2,))])
        def loss(params, x, y, key):
            keep = jax.random.bernoulli(key, 0.5, x.shape)
            return ((predict(params, x * keep) - y)**2).mean()

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a")
            paracord.jax.export(loss, path, inputs={"": (4,)}, targets={"": (2,)}, batch=8,
                                records=20)
            document, codes = _head_and_codes(path)
        self.assertEqual([(m["kind"], m["batch"]) for m in document["modules"]],
                         [("step", 8), ("step", 4), ("predict", 8)])
        self.assertEqual(document["variables"][0]["initializer"], {"name": "constant", "value": 0})
        self.assertEqual(document["modules"][0]["arguments"], [
            {"kind": "variable", "name": "w"}, {"kind": "input", "name": ""},
            {"kind": "target", "name": ""}, {"kind": "key"}])
        self.assertNotIn(b".py", codes[0])

    def test_of_tables_has_room_for_the_rows_that_a_batch_reads(self):
        import numpy
        import paracord.jax

        @paracord.jax.program(
            {"user": numpy.zeros((1000, 2), "f4"), "film": numpy.zeros((9, 3), "f4")},
            predict=lambda p, seen, film: p["user"][seen].sum(1), outputs=[paracord.Output((2,))],
            tables={"user": paracord.Table("seen"), "film": paracord.Table("film", capacity=3)})
        def loss(params, seen, film, y):
            return (params["user"][seen].sum((1, 2)) * params["film"][film].sum(1) * y).mean()

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a")
            paracord.jax.export(loss, path, inputs={"seen": (5,), "film": ()}, targets={"": ()},
                                batch=8, records=20)
            document, _ = _head_and_codes(path)
            with self.assertRaisesRegex(paracord.ProgramError, "reads the input 'film', which is"):
                paracord.jax.export(loss, path, inputs={"seen": (5,), "other": ()},
                                    targets={"": ()})
        self.assertEqual(
            {v["name"]: (v["shape"], v["table"]) for v in document["variables"]},
            {"user": ([1000, 2], {"columns": ["seen"]}),
             "film": ([9, 3], {"columns": ["film"], "capacity": 3})})
        self.assertEqual([c["dtype"] for c in document["inputs"]], ["int32", "int32"])
        self.assertEqual(
            [{a["name"]: a["rows"] for a in m["arguments"] if a["kind"] == "variable"}
             for m in document["modules"]],
            [{"film": 4, "user": 41}, {"film": 4, "user": 21}, {"film": 4, "user": 41}])

    def test_refuses_types_of_columns_that_it_lacks(self):
        import numpy
        import paracord.jax

        def export(folder, **options):
            program = paracord.jax.program({"user": numpy.zeros((7, 2), "f4")}, **options)(
                lambda p, ids: p["user"][ids.astype("int32")].sum())
            paracord.jax.export(program, os.path.join(folder, "a"), inputs={"": ()}, targets={})

        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(paracord.ProgramError, "'id' of inputs, which is no col"):
                export(folder, dtypes={"inputs": {"id": "int32"}})
            self.assertEqual(os.listdir(folder), [])
            export(folder, dtypes={"inputs": {"": "int32"}})
            self.assertEqual(os.listdir(folder), ["a"])


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    skipped = len(program.result.skipped)
    if skipped and program.result.wasSuccessful():
        print(f"skipped: {skipped} tests, for want of NumPy, PyTorch, JAX or Keras")
    sys.exit(not program.result.wasSuccessful())

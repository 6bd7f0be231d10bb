"""paracord.keras.convert: what Keras saved, apart as model.json and safetensors."""

import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
PROGRAMS = os.environ.get("PARACORD_PROGRAMS", "")


def has(*names):
    # A folder of this tree is no package of that name.
    specs = [importlib.util.find_spec(name) for name in names]
    return all(spec is not None and spec.origin is not None for spec in specs)


HAS_NUMPY = has("numpy")
BACKENDS = [name for name in ("tensorflow", "jax", "torch") if has(name)]
HAS_KERAS = HAS_NUMPY and has("keras", "h5py") and bool(BACKENDS)
if HAS_KERAS:
    os.environ.setdefault("KERAS_BACKEND", BACKENDS[0])
if HAS_NUMPY:
    import numpy

    import paracord
    from paracord import _keras_file


def run(*arguments):
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = _keras_file.main(arguments)
    return code, out.getvalue(), error.getvalue()


class Lookup:
    """A layer of Keras that has adapted itself to words."""

    def __init__(self, name, words):
        self.name, self._words = name, words

    def get_vocabulary(self, include_special_tokens):
        assert not include_special_tokens
        return self._words


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class Vocabularies(unittest.TestCase):
    def test_what_adapt_learned_is_written_where_keras_leaves_it_out(self):
        class Model:
            def _flatten_layers(self):
                return [Lookup("words", ["a", "b"]), Lookup("ids", numpy.int64([7, 9])),
                        Lookup("given", ["never"])]

        def layer(kind, name, vocabulary):
            return {"class_name": kind, "config": {"name": name, "vocabulary": vocabulary}}

        spec = {"config": {"layers": [layer("StringLookup", "words", None),
                                      {"config": {"layer": layer("IntegerLookup", "ids", None)}},
                                      layer("TextVectorization", "given", ["x"])]}}
        _keras_file.add_vocabularies(Model(), spec)
        layers = spec["config"]["layers"]
        self.assertEqual(layers[0]["config"]["vocabulary"], ["a", "b"])
        self.assertEqual(layers[1]["config"]["layer"]["config"]["vocabulary"], [7, 9])
        self.assertEqual(layers[2]["config"]["vocabulary"], ["x"])
        json.dumps(spec)

    def test_a_file_of_weights_alone_and_a_missing_one_are_refused_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.weights.h5")
            code, _, error = run(path, folder)
            self.assertEqual(code, 2)
            self.assertIn(path + ": holds weights and no model", error)
            code, _, error = run(os.path.join(folder, "none.keras"), folder)
            self.assertEqual(code, 2)
            self.assertIn("none.keras", error)
            self.assertEqual(os.listdir(folder), [])


@unittest.skipUnless(HAS_KERAS, "no Keras with a backend and h5py")
class Convert(unittest.TestCase):
    def model(self):
        import keras

        inputs = keras.Input((3,), name="in")
        scaled = keras.layers.Normalization(name="scale")
        scaled.adapt(numpy.float32([[1, 2, 3], [3, 2, 9], [5, 8, 0]]))
        hidden = keras.Sequential([keras.layers.Dense(4, "tanh"), keras.layers.Dropout(0.5),
                                   keras.layers.BatchNormalization()], name="hidden")
        outputs = keras.layers.Dense(2, name="out")(hidden(scaled(inputs)))
        model = keras.Model(inputs, outputs)
        model.compile("adam", "mse")
        for i, variable in enumerate(model.trainable_variables):
            values = numpy.linspace(-1, 1 + i, int(numpy.prod(variable.shape)))
            variable.assign(values.reshape(variable.shape))
        return model

    def check(self, model, folder, entries):
        weights = paracord.load(entries["initial_weights"])
        self.assertFalse([name for name in weights if "seed" in name])
        self.assertEqual(len(weights), len([v for v in model.weights if "seed" not in v.path]))
        with open(entries["model"], encoding="utf-8") as file:
            spec = json.load(file)
        self.assertEqual(spec["compile_config"]["loss"], "mse")
        if not PROGRAMS:
            return
        # The command computes with them what Keras does.
        x = numpy.float32([[1, 2, 3], [0, -1, 4]])
        numpy.save(os.path.join(folder, "x.npy"), x)
        numpy.save(os.path.join(folder, "y.npy"), numpy.zeros((2, 2), "f4"))
        job = {"model": entries["model"], "initial_weights": entries["initial_weights"], "batch": 2,
               "data": {"train": {"format": "npy", "features": "x.npy", "labels": "y.npy"}}}
        path = os.path.join(folder, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        paracord_program = os.path.join(PROGRAMS, "paracord")
        subprocess.run([paracord_program, "validate", path], check=True, stdout=subprocess.DEVNULL)
        out = os.path.join(folder, "out.npy")
        subprocess.run([paracord_program, "predict", "--weights", entries["initial_weights"],
                        "--data", os.path.join(folder, "x.npy"), "--out", out, path], check=True,
                       stdout=subprocess.DEVNULL)
        numpy.testing.assert_allclose(numpy.load(out), model.predict(x, verbose=0), rtol=1e-5,
                                      atol=1e-6)

    def test_a_file_becomes_a_model_and_weights_that_predict_what_keras_does(self):
        model = self.model()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.keras")
            model.save(path)
            out = os.path.join(folder, "apart")
            code, said, error = run(path, out)
            self.assertEqual(code, 0, error)
            self.check(model, folder, json.loads(said))

    def test_so_does_a_model_that_is_there(self):
        import paracord.keras

        model = self.model()
        with tempfile.TemporaryDirectory() as folder:
            self.check(model, folder, paracord.keras.convert(model, folder))

    def test_the_command_of_parquet_takes_files_of_keras(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.keras")
            self.model().save(path)
            environment = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"))
            done = subprocess.run([sys.executable, "-m", "paracord.convert", path,
                                   os.path.join(folder, "out")], check=False, text=True,
                                  capture_output=True, env=environment, cwd=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(json.loads(done.stdout)), ["initial_weights", "model"])

    def test_a_layer_of_ones_own_is_named_with_the_way_out(self):
        import keras

        class Twice(keras.layers.Layer):
            def call(self, x):
                return 2 * x

        model = keras.Sequential([keras.Input((3,)), Twice(), keras.layers.Dense(1)])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.keras")
            model.save(path)
            code, _, error = run(path, os.path.join(folder, "out"))
            self.assertEqual(code, 2)
            self.assertIn("Twice", error)
            self.assertIn("custom_objects", error)
            entries = _keras_file.convert(path, os.path.join(folder, "out"),
                                          custom_objects={"Twice": Twice})
            self.assertEqual(len(paracord.load(entries["initial_weights"])), 2)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    skipped = len(program.result.skipped)
    if skipped and program.result.wasSuccessful():
        print(f"skipped: {skipped} tests, for want of NumPy or Keras")
    sys.exit(not program.result.wasSuccessful())

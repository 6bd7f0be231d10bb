"""paracord.fit: its data, its cluster, and models of Keras, PyTorch and JAX."""

import contextlib
import importlib.util
import io
import json
import os
import signal
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
PROGRAMS = os.environ.get("PARACORD_PROGRAMS", "")
os.environ["PATH"] = PROGRAMS + os.pathsep + os.environ["PATH"]
os.environ.setdefault("KERAS_BACKEND", "jax")


def has(*names):
    # A folder of this tree is no package of that name.
    specs = [importlib.util.find_spec(name) for name in names]
    return all(spec is not None and spec.origin is not None for spec in specs)


HAS_NUMPY = has("numpy")
CAN_TRAIN = HAS_NUMPY and bool(PROGRAMS)
HAS_TORCH = CAN_TRAIN and has("torch", "cloudpickle")
HAS_KERAS = CAN_TRAIN and has("keras", "jax", "cloudpickle")
HAS_JAX = CAN_TRAIN and has("jax", "cloudpickle")
if HAS_NUMPY:
    import numpy

    from paracord import _files, _fit, _fit_data


class Frame:
    """What frames of pandas and polars have in common."""

    def __init__(self, **columns):
        self._columns, self.columns = columns, list(columns)

    def __getitem__(self, name):
        class Series:
            def to_numpy(_):
                return self._columns[name]

        return Series()

    def to_numpy(self):
        raise AssertionError("columns are taken one by one")


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class Data(unittest.TestCase):
    def test_a_loss_of_ones_own_with_a_name_near_another_is_left_to_the_library(self):
        loss = 'job.json: loss "mse_own" is not supported'
        for said in (loss + '; supported: mse', loss + ' (did you mean "mse"?); supported: mse'):
            side = mock.Mock(inputs=[""], outputs=[""], shapes={"": (2,)}, library="Keras")
            side.start.return_value = side.job.return_value = {}
            side.as_program.side_effect = _fit.TrainError("asked")
            with mock.patch.object(_fit, "_side", return_value=side), \
                    mock.patch.object(_fit, "run", side_effect=_fit.TrainError(said)), \
                    self.assertRaisesRegex(_fit.TrainError, "^asked$"):
                _fit.fit(None, numpy.zeros((4, 2), "f4"), numpy.zeros(4, "f4"), verbose=0)

    def columns(self, given, names=("",), shapes=None):
        return _fit_data.Columns("x", given, names, shapes or {}).arrays

    def test_arrays_keep_what_matters(self):
        with tempfile.TemporaryDirectory() as folder:
            for given, dtype in (([1.5, 2], "f4"), ([True, False], "u1"), ([2**62, 3], "i8"),
                                 (["a", "bcd"], "U3"), (numpy.float16([1, 2]), "f4")):
                data = _fit_data.write(folder, [_fit_data.Columns("x", given, [""], {}), None,
                                                None], None, 0)
                saved = numpy.load(os.path.join(folder, "x.npy"))
                self.assertEqual(saved.dtype, numpy.dtype(dtype))
                self.assertEqual(saved.tolist(), numpy.asarray(given).tolist())
                self.assertEqual(data["train"]["features"],
                                 os.path.basename(folder) + "/x.npy")

    def test_a_memory_map_is_written_in_pieces(self):
        with tempfile.TemporaryDirectory() as folder:
            whole = numpy.arange(700, dtype="f8").reshape(100, 7)
            whole.tofile(os.path.join(folder, "raw"))
            mapped = numpy.memmap(os.path.join(folder, "raw"), "f8", "r", shape=(100, 7))
            piece, _fit_data._PIECE = _fit_data._PIECE, 50
            _fit_data._save(os.path.join(folder, "x.npy"), mapped)
            _fit_data._PIECE = piece
            saved = numpy.load(os.path.join(folder, "x.npy"))
            self.assertEqual((saved.dtype, saved.tolist()), (numpy.float32, whole.tolist()))

    def test_frames_are_taken_by_the_names_of_inputs(self):
        frame = Frame(age=numpy.array([1.0, 2.0]), city=numpy.array(["a", None], object),
                      other=numpy.array([5, 6]))
        found = self.columns(frame, ["city", "age"], {"city": (1,), "age": (1,)})
        self.assertEqual({name: array.tolist() for name, array in found.items()},
                         {"city": [["a"], [""]], "age": [[1.0], [2.0]]})
        found = self.columns(Frame(a=numpy.array([1, 2]), b=numpy.array([3.5, 4])))
        self.assertEqual(found[""].tolist(), [[1, 3.5], [2, 4]])
        with self.assertRaisesRegex(ValueError, r"'age' has 1 missing numbers: fill them"):
            self.columns(Frame(age=numpy.array([1.0, float("nan")])))
        with self.assertRaisesRegex(ValueError, r"lacks the columns \['film'\]"):
            self.columns(frame, ["age", "film"])

    def test_columns_that_no_input_takes_are_named(self):
        frame = Frame(age=numpy.array([1, 2]), city=numpy.array(["a", "b"]),
                      other=numpy.array([5, 6]))
        with self.assertWarnsRegex(UserWarning, r"x has the columns \['other'\], which are no"):
            self.columns(frame, ["city", "age"])

    def test_labels_of_texts_are_refused_by_their_name(self):
        words = numpy.array(["no", "yes"], object)
        for given, name in ((words, "y"), (Frame(left=words), "y"), ({"left": words}, "y 'left'")):
            with self.assertRaisesRegex(ValueError, f"^{name} has texts, such as 'no', and labels"):
                _fit_data.Columns("y", given, [""], {}).refuse_texts()
        _fit_data.Columns("y", [0, 1], [""], {}).refuse_texts()

    def test_what_has_no_size_is_refused_with_the_ways(self):
        for given in ((i for i in range(3)), iter([1]), {"a": object()}):
            with self.assertRaisesRegex(TypeError, "give arrays, a dict of arrays or a frame, or"):
                self.columns(given)
        with self.assertRaisesRegex(ValueError, "different lengths"):
            self.columns({"a": [1], "b": [1, 2]})
        with self.assertRaisesRegex(ValueError, "has no examples"):
            self.columns([])

    def test_the_held_out_share_is_the_end(self):
        with tempfile.TemporaryDirectory() as folder:
            columns = [_fit_data.Columns("x", [1, 2], [""], {}), None, None]
            data = _fit_data.write(folder, columns, None, 0.25)
        self.assertEqual(data["train"]["part"], {"from": 0, "to": 0.75})
        self.assertEqual(data["test"]["part"], {"from": 0.75, "to": 1})

    def test_callbacks_become_keys_of_the_job(self):
        class EarlyStopping:
            monitor, patience, min_delta, mode = "val_auc", 0, -0.1, "auto"
            restore_best_weights = True

        class TerminateOnNaN:
            pass

        class LearningRateScheduler:
            pass

        self.assertEqual(_fit._stopping([EarlyStopping(), TerminateOnNaN()], "", 0), {"stop_when": {
            "metric": "auc", "patience": 1, "min_delta": 0.1, "restore_best": True}})
        with self.assertRaisesRegex(ValueError, "the ps have the learning rate"):
            _fit._stopping([LearningRateScheduler()], "", 0)
        EarlyStopping.monitor = "loss"
        with self.assertRaisesRegex(ValueError, "monitor='loss': only what the validation"):
            _fit._stopping([EarlyStopping()], "", 0)


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class Shown(unittest.TestCase):
    """What `verbose` prints of a training."""

    def shown(self, verbose):
        from unittest import mock

        from paracord import _fit_run
        with mock.patch.dict(sys.modules, {"tqdm": None, "tqdm.auto": None}), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            line = _fit_run._Line(2, verbose)
            line.show({"batches": 10, "batches_done": 4, "epoch": 1, "epochs": 2, "loss": 0.75,
                       "train": {"auc": 0.125, "loss": 0.8}})
            line.epoch(1, {"loss": 0.5, "auc": 0.25}, {"loss": 0.625})
            line.close(done=True)
        return out.getvalue()

    def test_without_tqdm_each_epoch_is_a_line_with_its_metrics(self):
        progress = "epoch 1/2  loss now 0.7500  auc 0.1250  40 %"
        epoch = "epoch 1/2  loss 0.5000  auc 0.2500  val_loss 0.6250\n"
        # The line of progress is taken away before the other is written.
        self.assertEqual(self.shown(1), f"\r{progress}\r{' ' * len(progress)}\r{epoch}")
        self.assertEqual(self.shown(2), epoch)
        self.assertEqual(self.shown(0), "")


LINEAR = ('{"class_name": "Sequential", "config": {"name": "m", "layers": [{"class_name": "Dense", '
          '"config": {"name": "d", "units": 1}}]}}')


@unittest.skipUnless(CAN_TRAIN, "no NumPy, or PARACORD_PROGRAMS names no folder of programs")
class Cluster(unittest.TestCase):
    """A model that is a file of JSON and a dict of arrays: no library is needed."""

    def setUp(self):
        class Side(_fit.Side):
            def __init__(self, values, **_):
                self.values = values

            def job(_, folder, columns):
                with open(os.path.join(folder, "model.json"), "w") as file:
                    file.write(self.json)
                return {"model": "model.json", "loss": "mse",
                        "optimizer": {"name": "sgd", "learning_rate": 0.1}}

            def start(self):
                return self.values

            def take(self, source):
                self.values.update(_files.result_of(source)[0])

        self.json = LINEAR
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        original = _fit._side
        _fit._side = lambda model, options: Side(model)
        self.addCleanup(setattr, _fit, "_side", original)
        random = numpy.random.default_rng(1)
        self.x = random.normal(size=(512, 3)).astype("f4")
        self.y = self.x @ numpy.float32([[1], [2], [3]]) + 0.5
        self.model = {"d/kernel": numpy.zeros((3, 1), "f4"), "d/bias": numpy.zeros(1, "f4")}

    def test_a_model_of_words_begins_with_its_values_and_no_false_word_of_them(self):
        layers = [{"class_name": "StringLookup", "config": {"name": "l", "vocabulary": ["a", "b"]}},
                  {"class_name": "Embedding", "config": {"name": "e", "input_dim": 3,
                                                         "output_dim": 1}},
                  {"class_name": "Flatten", "config": {"name": "f"}}]
        self.json = json.dumps({"class_name": "Sequential", "config": {
            "name": "m", "layers": [{"class_name": "InputLayer", "config": {
                "name": "x", "batch_shape": [None, 1], "dtype": "string"}}, *layers]}})
        self.x = numpy.array([["a"], ["b"]] * 100)
        self.y = numpy.float32([[1], [2]] * 100)
        self.model = {"e/embeddings": numpy.float32([[5], [1], [2]])}
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            self.fit(verbose=1)
        # Its values are right from the start, so that no gradient changes them.
        self.assertEqual(self.model["e/embeddings"].tolist(), [[5], [1], [2]])
        self.assertNotIn("variables are from the file", said.getvalue())

    def fit(self, verbose=0, **more):
        return _fit.fit(self.model, self.x, self.y, verbose=verbose, **more)

    def test_the_model_has_what_was_trained_and_history_has_each_epoch(self):
        history = self.fit(epochs=4, validation_split=0.25)
        numpy.testing.assert_allclose(self.model["d/kernel"], [[1], [2], [3]], atol=1e-2)
        self.assertEqual(history.epoch, [0, 1, 2, 3])
        self.assertEqual(len(history.history["val_loss"]), 4)
        # The mean over an epoch, of values that get better from batch to batch.
        losses = history.history["loss"]
        self.assertEqual(len(losses), 4)
        self.assertEqual(losses, sorted(losses, reverse=True))
        self.assertGreater(losses[0], history.history["val_loss"][0])
        self.assertLess(history.history["val_loss"][-1], 1e-3)
        self.assertEqual(history.summary["status"], "done")
        self.assertTrue(os.path.exists(history.dir + "/job.json"))

    def test_one_worker_gives_the_same_bits_and_more_epochs_go_on(self):
        start = {name: value.copy() for name, value in self.model.items()}
        self.fit(epochs=3)
        straight = dict(self.model)
        self.model = start
        self.fit(epochs=1, dir=self.folder.name)
        self.assertFalse(numpy.array_equal(self.model["d/kernel"], straight["d/kernel"]))
        history = self.fit(epochs=3, dir=self.folder.name)
        self.assertEqual(self.model["d/kernel"].tolist(), straight["d/kernel"].tolist())
        self.assertEqual(history.summary["ledger"]["batches"], 3 * 16)
        self.assertEqual(len(history.history["loss"]), 3)
        self.assertEqual(history.summary["epochs_found"], 1)

    def test_an_interrupt_takes_a_checkpoint_from_which_the_same_call_goes_on(self):
        def interrupt():
            while not _fit._has_checkpoint(self.folder.name):
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

        user = threading.Thread(target=interrupt)
        user.start()
        with self.assertRaisesRegex(KeyboardInterrupt, r"paracord\.fit\(\.\.\., dir='/"):
            self.fit(epochs=1000000, dir=self.folder.name,
                     job={"checkpoint": {"every_seconds": 0.2}})
        user.join()
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
        self.assertNotEqual(self.model["d/bias"].tolist(), [0])
        name, = sorted(os.listdir(self.folder.name + "/run/checkpoints"))[-1:]
        step = int(name.split("-")[1])
        self.assertGreater(step, 0)
        history = self.fit(epochs=step // 16 + 2, dir=self.folder.name)
        self.assertEqual(history.summary["status"], "done")
        self.assertEqual(history.summary["ledger"]["applied_min"], 16 * (step // 16 + 2))

    def test_mistakes_come_with_the_words_of_the_product(self):
        import paracord
        with self.assertRaises(paracord.TrainError) as raised:
            self.fit(job={"batchs": 3})
        self.assertEqual(raised.exception.code, 2)
        self.assertIn("batchs", str(raised.exception))
        self.y[3] = numpy.inf
        with self.assertRaisesRegex(paracord.TrainError, "(?s)y.npy.*inf"):
            self.fit()


@unittest.skipUnless(HAS_TORCH, "no PyTorch or cloudpickle")
class Torch(unittest.TestCase):
    def test_a_module_is_trained_and_scores_as_the_job_did(self):
        import torch
        import paracord
        torch.manual_seed(1)
        x = torch.randn(400, 6)
        y = (x.sum(1, keepdim=True) > 0).float()
        module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8),
                                     torch.nn.ReLU(), torch.nn.Linear(8, 1))
        loss = torch.nn.BCEWithLogitsLoss()
        history = paracord.fit(
            module, x, y, loss=loss, optimizer=torch.optim.Adam(module.parameters(), 0.01),
            metrics=["auc", "accuracy"], epochs=5, validation_data=(x, y), verbose=0)
        module.eval()
        with torch.no_grad():
            scored = module(x)
            self.assertAlmostEqual(float(loss(scored, y)), history.history["val_loss"][-1], 5)
            accuracy = float(((scored > 0) == (y > 0)).float().mean())
        self.assertAlmostEqual(accuracy, history.history["val_binary_accuracy"][-1], 6)
        self.assertGreater(history.history["val_auc"][-1], 0.9)

    def test_optimizers_that_mean_something_else_are_refused(self):
        import torch
        from paracord import _fit_torch
        weights = [torch.nn.Parameter(torch.zeros(2))]
        self.assertEqual(
            _fit_torch._optimizer(torch.optim.SGD(weights, 0.1, momentum=0.9)),
            {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9, "nesterov": False})
        for wrong, words in ((torch.optim.Adam(weights, weight_decay=0.1), "weight_decay=0.1"),
                             (torch.optim.LBFGS(weights), "torch.optim.LBFGS"), (None, "needs")):
            with self.assertRaisesRegex(ValueError, words):
                _fit_torch._optimizer(wrong)

    def test_shared_parameters_stay_shared(self):
        import torch
        from paracord import _fit_torch
        module = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)])
        module[1].weight = module[0].weight
        meta = _fit_torch._Meta(module)
        self.assertTrue(meta.module[0].weight.is_meta)
        self.assertIs(meta.module[1].weight, meta.module[0].weight)
        whole = meta.whole()
        self.assertIs(whole[1].weight, whole[0].weight)
        self.assertFalse(module[0].weight.is_meta)


@unittest.skipUnless(HAS_JAX, "no JAX or cloudpickle")
class Jax(unittest.TestCase):
    def test_a_function_is_trained_and_its_values_come_back_in_their_tree(self):
        import paracord
        random = numpy.random.default_rng(1)
        x = random.normal(size=(512, 3)).astype("f4")
        y = x @ numpy.float32([[1], [2], [3]])
        params = {"dense": [numpy.zeros((3, 1), "f4")], "bias": numpy.zeros((), "f4")}
        history, params = paracord.fit(
            lambda p, x, y: ((x @ p["dense"][0] + p["bias"] - y) ** 2).mean(), x, y, params=params,
            optimizer={"name": "sgd", "learning_rate": 0.1}, epochs=3, validation_split=0.2,
            verbose=0)
        numpy.testing.assert_allclose(params["dense"][0], [[1], [2], [3]], atol=1e-2)
        self.assertEqual(params["bias"].shape, ())
        self.assertLess(history.history["val_loss"][-1], 1e-3)


@unittest.skipUnless(HAS_KERAS, "no Keras, JAX or cloudpickle")
class Keras(unittest.TestCase):
    def test_a_model_that_another_backend_computes_names_the_backend_first(self):
        import keras
        import paracord
        model = keras.Sequential([keras.Input((2,)), keras.layers.Lambda(lambda x: x),
                                  keras.layers.Dense(1)])
        model.compile(optimizer="adam", loss="mse")
        x = numpy.zeros((8, 2), "f4")
        with mock.patch("keras.backend.backend", return_value="tensorflow"), \
                self.assertRaisesRegex(paracord.TrainError,
                                       "^[^;]*Lambda[^;]* is not supported: set KERAS_BACKEND=jax "
                                       "before Keras is imported"):
            paracord.fit(model, x, x[:, :1], verbose=0)

    def data(self):
        random = numpy.random.default_rng(1)
        x = random.normal(3, 2, size=(400, 6)).astype("f4")
        return x, (x.sum(1) > 18).astype("f4")

    def check(self, make, **more):
        import keras
        import paracord
        keras.utils.set_random_seed(1)
        x, y = self.data()
        model = make(keras, x)
        model.compile(optimizer=keras.optimizers.Adam(0.01), loss="binary_crossentropy",
                      metrics=["binary_accuracy"])
        history = paracord.fit(model, x, y, epochs=4, validation_data=(x, y), verbose=0, **more)
        self.assertIsInstance(history, keras.callbacks.History)
        loss, accuracy = model.evaluate(x, y, verbose=0)
        self.assertAlmostEqual(loss, history.history["val_loss"][-1], 5)
        self.assertAlmostEqual(accuracy, history.history["val_binary_accuracy"][-1], 6)
        self.assertLess(history.history["val_loss"][-1], 0.65)
        return history

    def test_a_model_with_what_adapt_learned_scores_as_the_job_did(self):
        def make(keras, x):
            normal = keras.layers.Normalization()
            normal.adapt(x)
            return keras.Sequential([keras.Input((6,)), normal, keras.layers.Dense(8, "relu"),
                                     keras.layers.Dense(1, "sigmoid")])

        self.check(make)

    def test_the_history_is_that_of_keras_own_fit(self):
        import keras
        import paracord
        keras.utils.set_random_seed(1)
        x, y = self.data()
        models = [keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"),
                                    keras.layers.Dense(1, "sigmoid")]) for _ in range(2)]
        models[1].set_weights(models[0].get_weights())
        for model in models:
            model.compile(optimizer=keras.optimizers.SGD(0.05), loss="binary_crossentropy",
                          metrics=["binary_accuracy", "auc"])
        how = {"epochs": 3, "batch_size": 48, "shuffle": False, "validation_data": (x, y),
               "verbose": 0}  # the last batch has 16 of 400
        ours = paracord.fit(models[0], x, y, **how)
        theirs = models[1].fit(x, y, **how)
        self.assertEqual(set(ours.history), set(theirs.history))
        self.assertEqual(ours.epoch, theirs.epoch)
        for name, values in theirs.history.items():
            numpy.testing.assert_allclose(ours.history[name], values, rtol=2e-4, err_msg=name)

    def test_a_vocabulary_that_adapt_learned_is_written_into_the_config(self):
        from paracord import _keras_file

        class Lookup:  # Keras' own wants TensorFlow
            name = "words"

            def get_vocabulary(self, include_special_tokens):
                assert not include_special_tokens
                return ["b", numpy.int64(7)]

        class Model:
            def _flatten_layers(self):
                return [Lookup()]

        spec = {"config": {"layers": [{"class_name": "StringLookup", "config": {
            "name": "words", "vocabulary": None}}, {"class_name": "StringLookup", "config": {
                "name": "given", "vocabulary": ["a"]}}]}}
        _keras_file.add_vocabularies(Model(), spec)
        self.assertEqual([layer["config"]["vocabulary"] for layer in spec["config"]["layers"]],
                         [["b", 7], ["a"]])

    def test_a_layer_of_ones_own_is_computed_by_keras(self):
        def make(keras, x):
            class Scale(keras.layers.Layer):
                def build(self, shape):
                    self.scale = self.add_weight(shape=(shape[-1],), initializer="ones",
                                                 name="scale")

                def call(self, inputs):
                    return inputs * self.scale / 3

            return keras.Sequential([keras.Input((6,)), Scale(), keras.layers.Dense(8, "relu"),
                                     keras.layers.Dense(1, "sigmoid")])

        history = self.check(make)
        with open(history.dir + "/job.json") as file:
            self.assertIn('"process"', file.read())


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    skipped = len(program.result.skipped)
    if skipped and program.result.wasSuccessful():
        print(f"skipped: {skipped} tests, for want of programs, NumPy, PyTorch, JAX or Keras")
    sys.exit(not program.result.wasSuccessful())

"""The Python package's ways from a checkpoint to a service."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
PARACORD = os.environ.get("PARACORD") or os.path.join(ROOT, "build/release/bin/paracord")
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
HAS_TORCH = HAS_NUMPY and importlib.util.find_spec("torch") is not None
# A folder of this tree is no package of that name.
INSTALLED = [name for name in ("keras", "tensorflow", "jax", "torch")
             if getattr(importlib.util.find_spec(name), "origin", None) is not None]
HAS_KERAS = HAS_NUMPY and INSTALLED[:1] == ["keras"] and len(INSTALLED) > 1


def job(**more):
    """A job that looks words and numbers of a CSV up and adds them in a dense layer."""
    layers = [{"class_name": "InputLayer", "config": {"batch_shape": [None, 3], "name": "in"}},
              {"class_name": "Dense", "config": {"name": "score", "units": 1}}]
    return {"model": {"class_name": "Sequential", "config": {"name": "s", "layers": layers}},
            "data": {"train": {"format": "csv", "files": "train.csv", "label": "y", "features": [
                {"column": "city", "kind": "categorical", "vocabulary": ["Bonn", "Oslo"]},
                {"column": "age", "mean": 10, "std": 2},
                {"column": "street", "kind": "hashed", "bins": 1000}]}},
            "batch": 4, "loss": "mse", "optimizer": "sgd", **more}


def table_job():
    """A job with a row for each user that has one, whose id is a hash of the name."""
    def layer(name, kind, config, inputs):
        nodes = [[[of, 0, 0, {}] for of in inputs]] if inputs else []
        return {"class_name": kind, "name": name, "config": {**config, "name": name},
                "inbound_nodes": nodes}

    layers = [layer("user", "InputLayer", {"batch_shape": [None, 1]}, []),
              layer("age", "InputLayer", {"batch_shape": [None, 1]}, []),
              layer("users", "Embedding", {"input_dim": 100, "output_dim": 3}, ["user"]),
              layer("flat", "Flatten", {}, ["users"]),
              layer("all", "Concatenate", {"axis": -1}, ["flat", "age"]),
              layer("like", "Dense", {"units": 1, "activation": "sigmoid"}, ["all"])]
    model = {"class_name": "Functional", "config": {
        "name": "m", "layers": layers, "input_layers": [["user", 0, 0], ["age", 0, 0]],
        "output_layers": [["like", 0, 0]]}}
    data = {"format": "csv", "files": "users.csv", "label": "y", "features": [
        {"column": "user", "kind": "id", "hash": True, "input": "user"},
        {"column": "age", "input": "age"}]}
    return {"model": model, "data": {"train": data}, "batch": 10, "loss": "binary_crossentropy",
            "optimizer": {"name": "adagrad", "learning_rate": 0.5},
            "tables": {"users": {"kind": "growing"}}}


@unittest.skipUnless(HAS_NUMPY and os.path.exists(PARACORD), "no NumPy, or no program paracord")
class Predictor(unittest.TestCase):
    class PolarsFrame:
        """What is taken of a frame of polars, whose series have no `tolist`."""

        def __init__(self, columns):
            self._columns, self.columns = columns, list(columns)

        def to_dict(self):
            raise AssertionError("columns are taken one by one")

        def __getitem__(self, name):
            class Series:
                def to_list(_):
                    return self._columns[name]

            return Series()

    @classmethod
    def setUpClass(cls):
        import numpy
        import paracord

        cls.folder = tempfile.TemporaryDirectory()
        cls.job = os.path.join(cls.folder.name, "job.json")
        with open(cls.job, "w") as file:
            json.dump(job(), file)
        cls.weights = os.path.join(cls.folder.name, "w.safetensors")
        paracord.save(cls.weights, {"score/kernel": numpy.float32([[1], [10], [0]]),
                                    "score/bias": numpy.float32([0.5])})

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def served(self):
        from paracord._predictor import Predictor

        return Predictor(["--weights", self.weights, self.job], PARACORD)

    def test_predicts_for_columns_in_their_order(self):
        import numpy

        ages = numpy.arange(10, 20)
        with self.served() as predict:
            scores = predict({"street": ["a"] * 10, "age": ages, "city": ["Oslo", "Rom"] * 5})
            self.assertEqual(scores.shape, (10, 1))
            expected = [[2, 0][i % 2] + 10 * (age - 10) / 2 + 0.5 for i, age in enumerate(ages)]
            self.assertEqual(scores[:, 0].tolist(), expected)
            frame = self.PolarsFrame({"street": ["a"], "age": [12], "city": ["Oslo"]})
            self.assertEqual(predict(frame).tolist(), [[12.5]])
            self.assertEqual(predict({"street": ["x, \"y\"\n"], "age": [12], "city": ["Bonn"]})
                             .tolist(), [[11.5]])

    def test_errors_are_the_products_own_and_end_nothing(self):
        import paracord

        with self.served() as predict:
            for columns, why in (({"age": [1], "city": ["Bonn"]}, 'no column "street"'),
                                 ({"age": ["x"], "city": ["a"], "street": ["b"]}, "row 0"),
                                 ({"age": [1, 2], "city": ["a"]}, "'age' has 2, 'city' has 1"),
                                 ({}, "no columns")):
                with self.assertRaisesRegex(paracord.ProgramError, why):
                    predict(columns)
            self.assertEqual(predict({"street": ["a"], "age": [10], "city": ["Rom"]}).tolist(),
                             [[0.5]])
        with self.assertRaisesRegex(paracord.ProgramError, "gone"):
            paracord.predictor(os.path.join(self.folder.name, "gone"), command=PARACORD)
        with self.assertRaisesRegex(paracord.ProgramError, "--memory-limit: "):
            paracord.predictor(self.folder.name, memory_limit="much", command=PARACORD)
        with self.assertRaisesRegex(paracord.ProgramError, "is not found: name it"):
            paracord.predictor(self.folder.name, command="/no/paracord")

    def test_features_are_what_the_model_gets(self):
        import paracord

        with paracord.features(self.job, command=PARACORD) as features:
            given = features({"street": ["a", "b"], "age": [12, 8], "city": ["Bonn", "Rom"]})
        self.assertEqual(list(given), [""])
        self.assertEqual(given[""][:, :2].tolist(), [[1, 1], [0, -1]])
        self.assertNotEqual(*given[""][:, 2].tolist())

    def test_padding_of_lists_and_unknown_words_have_numbers_of_their_own(self):
        import paracord

        words = job()
        words["data"]["train"]["features"] = [
            {"column": "cities", "kind": "categorical", "vocabulary": ["Bonn", "Oslo"],
             "separator": "|", "length": 3, "mask": True}]
        path = os.path.join(self.folder.name, "words.json")
        with open(os.path.join(self.folder.name, "words.csv"), "w") as file:
            file.write("cities,y\nOslo|Rom,1\n,0\n")
        words["data"]["train"]["files"] = "words.csv"
        with open(path, "w") as file:
            json.dump(words, file)
        with paracord.features(path, command=PARACORD) as features:
            given = features({"cities": ["Oslo|Rom", "", "Bonn|Oslo|Bonn"]})
        self.assertEqual(given[""].tolist(), [[3, 1, 0], [0, 0, 0], [2, 3, 2]])

    def as_predicted(self, data, text, given):
        """Checks that a model of the job's data gives for columns what it gives for a file."""
        import numpy

        path, out = (os.path.join(self.folder.name, name) for name in ("d.json", "d.npy"))
        spec = job()
        spec["data"]["train"] = {"format": "csv", "files": "none.csv", "label": "y", **data}
        with open(path, "w") as file:
            json.dump(spec, file)
        with open(os.path.join(self.folder.name, "d.csv"), "w", newline="") as file:
            file.write(text)
        run = [PARACORD, "predict", "--weights", self.weights, path, "--out", out,
               "--data", os.path.join(self.folder.name, "d.csv")]
        subprocess.run(run, check=True, capture_output=True)
        from paracord._predictor import Predictor

        with Predictor(["--weights", self.weights, path], PARACORD) as predict:
            self.assertEqual(predict(given).tobytes(), numpy.load(out).tobytes())

    def test_the_dialect_of_the_files_is_not_that_of_a_request(self):
        def named(**more):
            city = {"column": "city", "kind": "hashed", "bins": 1 << 20}
            return {"features": [city, "age", "size"], **more}

        columns = {"size": [5, 6, 7], "city": ["q\"r", "Bonn", "Rom"], "age": [1, 2, 3]}
        lines = ["city,age,size", "q\"r,1,5", "Bonn,2,6", "Rom,3,7"]
        plain = "\n".join(lines).replace("q\"r", "\"q\"\"r\"")
        self.as_predicted(named(quote=None), "\n".join(lines), columns)
        for delimiter in (";", "\t", "::"):
            text = plain.replace(",", delimiter)
            self.as_predicted(named(delimiter=delimiter), text, columns)
        self.as_predicted(named(quote="'"), "\n".join(lines).replace("q\"r", "'q\"r'"), columns)
        self.as_predicted(named(quote="'"), "\n".join(lines).replace("Rom", "'o''r'"),
                          {**columns, "city": ["q\"r", "Bonn", "o'r"]})
        self.as_predicted(named(escape="\\"), "\n".join(lines).replace("q\"r", "\\q\\\"r"),
                          columns)
        self.as_predicted(named(escape="\\", quote=None, delimiter=";"),
                          "city;age;size\na\\;b,c;1;5\n\\\\;2;6\nx\\\ny;3;7",
                          {**columns, "city": ["a;b,c", "\\", "x\ny"]})
        self.as_predicted(named(skip_lines=2), "about\n\n" + plain, columns)
        self.as_predicted(named(trim=True, delimiter=";"),
                          "city;age;size\n Bonn ; 1;5\n a,b ;2 ;6\nRom;3;7",
                          {**columns, "city": [" Bonn ", " a,b ", "Rom"], "age": [" 1", "2 ", 3]})
        missing = named(missing=["?", "\\N"], escape="\\")
        missing["features"][1] = {"column": "age", "default": 9}
        self.as_predicted(missing, "city,age,size\nRom,\\N,5\nRom,?,6\nRom,,7\n",
                          {**columns, "city": ["Rom"] * 3, "age": ["\\N", "?", None]})

    def test_columns_without_a_header_are_those_of_the_numbers_or_of_the_order(self):
        import paracord

        text = "5,0,1,2\n6,1,3,4\n"  # the label is column 1
        data = {"header": False, "features": [2, 3, {"columns": [0, 2], "kind": "crossed",
                                                     "bins": 9}], "label": 1}
        numbers = {3: [2, 4], 2: [1, 3], 0: [5, 6]}
        self.as_predicted(data, text, numbers)
        self.as_predicted(data, text, {str(name): values for name, values in numbers.items()})
        names = {"d": [5, 6], "y": [0, 1], "a": [1, 3], "b": [2, 4]}
        self.as_predicted(data, text, names)
        others = {"header": False, "features": [2, "*"], "label": 1}
        self.as_predicted(others, text, numbers)
        self.as_predicted(others, text, names)
        for features in (["a", "b", "d"], [2, "b", {"column": 0}], ["a", "*"]):
            said = {"header": False, "columns": ["d", "y", "a", "b"], "features": features}
            backwards = names if "*" in features else dict(reversed(names.items()))
            self.as_predicted(said, text, backwards)
        with self.assertRaisesRegex(paracord.ProgramError, "no column 3"):
            self.as_predicted(data, text, {"a": [1, 3], "b": [2, 4]})
        with self.assertRaisesRegex(paracord.ProgramError, 'no column "2"'):
            self.as_predicted(data, text, {3: [2, 4], 0: [1, 3]})

    def test_a_float_that_need_not_be_the_id_is_refused(self):
        import numpy
        import paracord

        class Missing:
            """As pandas' NA: comparisons give another, which has no truth."""

            def __ne__(self, _):
                return self

            def __bool__(self):
                raise TypeError("boolean value of NA is ambiguous")

        def features(column, **more):
            spec = job()
            spec["data"]["train"].update(more)
            spec["data"]["train"]["features"] = [
                {"column": column, "kind": "id", "default": "0"}]
            path = os.path.join(self.folder.name, "ids.json")
            with open(path, "w") as file:
                json.dump(spec, file)
            return paracord.features(path, command=PARACORD)

        exact = [7.0, -3, 1 << 60, "1e+16", float("nan"), None, Missing(), 2.0 ** 53 - 1]
        numberless = {"header": False, "label": 3}
        for column, name, more in (("member", "member", {}), ("mem*", "member", {}),
                                   (1, "b", numberless), (1, "1", numberless),
                                   (1, 1, {**numberless, "columns": ["a", "1"]})):
            with features(column, **more) as given:
                for value in (1e16, -1e16, 2.0 ** 53, 7.5, numpy.float64(1e16),
                              numpy.float32(2.0 ** 60)):
                    with self.assertRaisesRegex(
                            paracord.ProgramError,
                            f"column {name!r} has ids, and row 1 the float .*below 2..53; give"):
                        given({"a": [1, 2], name: [3, value]})
                ids = given({"a": [1.5] * len(exact), name: exact})[""][:, 0]
                self.assertEqual(ids[:3].tolist() + ids[4:].tolist(),
                                 [7, -3, 1 << 60, 0, 0, 0, (1 << 53) - 1])

    def test_rows_of_a_growing_table_make_the_scores_with_ids_that_have_none(self):
        import numpy
        import paracord

        folder = self.folder.name
        with open(folder + "/users.csv", "w") as file:
            file.write("user,age,y\n" + "".join(
                f"name {i * i % 37},{i % 5},{int(i * i % 37 % 3 == 0)}\n" for i in range(100)))
        with open(folder + "/rows.json", "w") as file:
            json.dump(table_job(), file)
        subprocess.run([PARACORD, "train", folder + "/rows.json", "--dir", folder + "/rows"],
                       check=True, capture_output=True)
        given = {"user": [f"name {i}" for i in range(50)], "age": numpy.arange(50) % 5}
        trained = paracord.load(folder + "/rows")
        with paracord.features(folder + "/rows", command=PARACORD) as features:
            inputs = features(given)
        ids = inputs["user"][:, 0]
        self.assertEqual(ids.dtype, "int64")
        known = numpy.isin(ids, trained["users/embeddings/ids"])
        self.assertTrue(known.any() and not known.all())
        with paracord.predictor(folder + "/rows", memory_limit="1GiB",
                                command=PARACORD) as predict:
            scores = predict(given)
            rows = predict.rows("users/embeddings", ids)
            own = predict.rows("users/embeddings", trained["users/embeddings/ids"])
            with self.assertRaisesRegex(paracord.ProgramError,
                                        'no growing table "users"; it has users/embeddings'):
                predict.rows("users", ids)
            for words in (["name 1"], numpy.array(["name 1"]), numpy.array([b"n"], object)):
                with self.assertRaisesRegex(paracord.ProgramError, "paracord.features gives"):
                    predict.rows("users/embeddings", words)
            with self.assertRaisesRegex(paracord.ProgramError, "whole numbers$"):
                predict.rows("users/embeddings", [0.5])
        self.assertEqual(own.tolist(), trained["users/embeddings/rows"].tolist())
        logits = numpy.concatenate([rows, inputs["age"]], 1) @ trained["like/kernel"]
        expected = 1 / (1 + numpy.exp(-(logits + trained["like/bias"])))
        self.assertLess(abs(expected - scores).max(), 1e-6)

    def test_a_frame_that_is_none_ends_it(self):
        ran = subprocess.run([PARACORD, "predict", "--serve", self.job],
                             input=b"\x05\0\0\0\0\0\0\0ab", capture_output=True)
        self.assertEqual(ran.returncode, 1)
        self.assertIn(b"is no frame", ran.stderr)


@unittest.skipUnless(HAS_TORCH, "no PyTorch")
class IntoTorch(unittest.TestCase):
    def test_values_go_into_the_module_or_nothing_does(self):
        import numpy
        import paracord
        import torch

        module = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.BatchNorm1d(1))
        values = {"0.weight": numpy.float32([[1, 2]]), "0.bias": numpy.float32([3]),
                  "1.weight": numpy.float32([4]), "1.bias": numpy.float32([5]),
                  "1.running_mean": numpy.float32([6]), "1.running_var": numpy.float32([7])}
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/w.safetensors"
            paracord.save(path, values)
            paracord.load_into(module, path)
            for name, value in values.items():
                self.assertEqual(module.state_dict()[name].tolist(), value.tolist())
            paracord.save(path, {**values, "0.bias": numpy.float32([8, 9]),
                                 "more": values["0.bias"]})
            with self.assertRaisesRegex(paracord.ProgramError, "the model lacks more; 0.bias has"):
                paracord.load_into(module, path)
            del values["1.bias"]
            paracord.save(path, {**values, "0.weight": numpy.zeros((1, 2), "f4")})
            with self.assertRaisesRegex(paracord.ProgramError, "it lacks 1.bias"):
                paracord.load_into(module, path)
            self.assertEqual(module[0].weight.tolist(), [[1, 2]])


@unittest.skipUnless(HAS_KERAS, "no Keras")
class IntoKeras(unittest.TestCase):
    def setUp(self):
        os.environ.setdefault("KERAS_BACKEND", INSTALLED[1])

    def test_values_go_to_the_variables_of_their_paths(self):
        import keras
        import numpy
        import paracord

        inner = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, name="a")], name="inner")
        model = keras.Sequential([keras.Input((2,)), inner, keras.layers.Dense(1, name="b")])
        values = {"a/kernel": numpy.full((2, 3), 2, "f4"), "a/bias": numpy.full(3, 3, "f4"),
                  "b/kernel": numpy.full((3, 1), 4, "f4"), "b/bias": numpy.full(1, 5, "f4")}
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/w.safetensors"
            paracord.save(path, values)
            paracord.load_into(model, path)
            self.assertEqual(numpy.asarray(model(numpy.ones((1, 2), "f4"))).tolist(),
                             [[3 * 4 * 7 + 5]])
            paracord.save(path, {**values, "c": numpy.float32(1), "b/bias": numpy.zeros(2, "f4")})
            with self.assertRaisesRegex(paracord.ProgramError, "b/bias has .*; the model lacks c"):
                paracord.load_into(model, path)
            # A growing table has no place in a model.
            rows = {"t/rows": numpy.zeros((1, 2), "f4"), "t/ids": numpy.zeros(1, "i8")}
            paracord.save(path, {**values, **rows})
            with self.assertRaisesRegex(paracord.ProgramError, "t grow"):
                paracord.load_into(model, path)
            paracord.load_into(model, path, tables="skip")

    def test_a_model_without_an_input_is_built_or_the_error_says_how(self):
        import keras
        import numpy
        import paracord

        values = {"a/kernel": numpy.full((2, 3), 2, "f4"), "a/bias": numpy.full(3, 3, "f4"),
                  "b/kernel": numpy.full((3, 1), 4, "f4"), "b/bias": numpy.full(1, 5, "f4")}
        dense = keras.layers.Dense
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/w.safetensors"
            paracord.save(path, values)
            model = keras.Sequential([dense(3, name="a"), dense(1, name="b")])
            paracord.load_into(model, path)
            self.assertEqual(numpy.asarray(model(numpy.ones((1, 2), "f4"))).tolist(), [[89]])
            flat = keras.Sequential([keras.layers.Flatten(), dense(3, name="a"),
                                     dense(1, name="b")])
            with self.assertRaisesRegex(paracord.ProgramError, r"call model.build\(\(None, ...\)"):
                paracord.load_into(flat, path)
            flat.build((None, 2, 1))
            paracord.load_into(flat, path)
            self.assertEqual(numpy.asarray(flat(numpy.ones((1, 2, 1), "f4"))).tolist(), [[89]])
            other = keras.Sequential([dense(3, name="a"), keras.layers.Conv1D(1, 1, name="b")])
            with self.assertRaisesRegex(paracord.ProgramError, "of 2 numbers Keras says"):
                paracord.load_into(other, path)

    def test_models_that_lack_keras_3_own_keys_become_files(self):
        import keras
        from paracord import export

        inputs = [keras.Input((2,), name="x"), keras.Input((2,), name="y")]
        both = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Add()(inputs)))
        specs = [json.loads(both.to_json()), job()["model"], table_job()["model"],
                 {"class_name": "Sequential", "config": {"name": "s", "layers": [
                     {"class_name": "Dense", "config": {"name": "score", "units": 1}}]}}]
        self.assertEqual(["module" in spec for spec in specs], [True, False, False, False])
        names = [[layer.name for layer in export._build(keras, spec).layers] for spec in specs]
        self.assertEqual(names[0], [layer.name for layer in both.layers])
        self.assertEqual(names[1], ["score"])
        self.assertEqual(sorted(names[2]), ["age", "all", "flat", "like", "user", "users"])
        self.assertEqual(names[3], ["score"])


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class Models(unittest.TestCase):
    def test_other_models_and_files_are_refused(self):
        import numpy
        import paracord
        from paracord.export import main

        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/w.safetensors"
            paracord.save(path, {"a": numpy.float32([1])})
            with self.assertRaisesRegex(paracord.ProgramError, "the model is a dict: give a Keras"):
                paracord.load_into({}, path)
            self.assertEqual(main(["--dir", folder, "--out", folder + "/m.onnx"]), 2)


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    skipped = len(program.result.skipped)
    if skipped and program.result.wasSuccessful():
        print(f"skipped: {skipped} tests, for want of NumPy, a framework or paracord")
    sys.exit(not program.result.wasSuccessful())

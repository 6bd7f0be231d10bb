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
            for dtypes, why in (
                    ({"inputs": {"user": "int32"}}, "'user' of inputs, which is no column"),
                    ({"target": {"": "int32"}}, "dtypes has {'target': .* inputs, targets or wei"),
                    ({"weights": {"": "int32"}}, "'' of weights, which is no column")):
                with self.assertRaisesRegex(paracord.ProgramError, why):
                    paracord.keras.export(model, "mean_squared_error", path, dtypes=dtypes)
            self.assertEqual(_head_and_codes(path)[0], document)  # it was left alone


def _run(module, arguments, results):
    """The results, of these shapes, of a module of a file."""
    import base64
    import dataclasses
    import jax
    import jax.export

    def same_results(*_):
        return tuple(jax.numpy.zeros(shape, "float32") for shape in results)

    exported = jax.export.export(jax.jit(same_results, keep_unused=True))(*arguments)
    exported = dataclasses.replace(
        exported, mlir_module_serialized=base64.b64decode(module["code"]))
    return exported.call(*arguments)


@unittest.skipUnless(HAS_KERAS, "no Keras on JAX")
class KerasTables(unittest.TestCase):
    """Embeddings of which a module is given the rows that its batch reads."""

    def setUp(self):
        import numpy
        import paracord.keras
        import keras

        keras.backend.clear_session()
        layers = keras.layers
        self.seen = keras.Input((5,), dtype="int32", name="seen")
        self.film = keras.Input((), dtype="int32", name="film")
        self.age = keras.Input((1,), name="age")
        self.people = layers.Embedding(1000, 4, mask_zero=True, name="people")(self.seen)
        self.films = layers.Embedding(50, 3, name="films")(self.film)
        mean = layers.GlobalAveragePooling1D()(self.people)
        both = layers.Concatenate()([mean, self.films, self.age])
        hidden = layers.Dense(4, kernel_regularizer=keras.regularizers.L2(0.1),
                              activation="tanh")(both)
        self.model = self.model_of(layers.Dense(1)(hidden))
        self.tables = {"people": "seen", "films": paracord.Table("film", capacity=6)}
        random = numpy.random.default_rng(3)
        self.ids = {"seen": random.integers(0, 1000, (8, 5)),
                    "film": numpy.array([3, 9, 3, 49, 9, 3, 1, 1])}
        self.ids["seen"][2, 3:] = 0  # which is nothing, and masked
        self.ages = random.uniform(0, 1, (8, 1)).astype("f4")
        self.y = random.uniform(0, 1, (8, 1)).astype("f4")

    def model_of(self, output):
        import keras

        return keras.Model([self.seen, self.film, self.age], output)

    def export(self, model, tables, **options):
        import paracord.keras

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a")
            paracord.keras.export(model, "mean_squared_error", path, tables=tables, **options)
            return _head_and_codes(path)[0]

    def keras_gradients(self):
        """The loss and the gradients by whole variables, as Keras has them."""
        import jax
        import keras

        def loss(trained):
            outputs, _, losses = self.model.stateless_call(
                trained, [], [self.ids["seen"], self.ids["film"], self.ages], training=True,
                return_losses=True)
            return keras.losses.MeanSquaredError()(self.y, outputs) + sum(losses)

        return jax.value_and_grad(loss)([v.value for v in self.model.trainable_variables])

    def test_gradients_are_those_of_keras(self):
        import numpy

        document = self.export(self.model, self.tables, batch=8)
        self.assertEqual(
            {v["name"]: v["table"] for v in document["variables"] if "table" in v},
            {"people/embeddings": {"columns": ["seen"]},
             "films/embeddings": {"columns": ["film"], "capacity": 6}})
        step = document["modules"][0]
        room = {a["name"]: a["rows"] for a in step["arguments"] if "rows" in a}
        self.assertEqual(room, {"people/embeddings": 41, "films/embeddings": 7})
        # As a worker does: the rows of the batch and their numbers; row 0 is that of id 0.
        values = [numpy.asarray(v) for v in self.model.trainable_variables]
        columns, read = {}, {}
        for at, (variable, value) in enumerate(zip(document["variables"], values)):
            if "table" not in variable:
                continue
            ids = self.ids[variable["table"]["columns"][0]]
            unique = numpy.unique(numpy.append(ids, 0))
            columns[variable["table"]["columns"][0]] = numpy.searchsorted(unique, ids)
            read[at] = unique
            values[at] = numpy.zeros((room[variable["name"]], value.shape[1]), "f4")
            values[at][:len(unique)] = value[unique]
        results = _run(
            step, [*values, columns["seen"].astype("i4"), columns["film"].astype("i4"), self.ages,
                   self.y, numpy.array([1, 2], "u4")], [(), *(v.shape for v in values)])
        loss, expected = self.keras_gradients()
        self.assertAlmostEqual(float(results[0]), float(loss), places=6)
        for at, (found, right) in enumerate(zip(results[1:], expected)):
            right = numpy.asarray(right)
            self.assertGreater(numpy.abs(right).max(), 0)
            if at in read:
                others = numpy.delete(right, read[at], axis=0)
                self.assertEqual(numpy.abs(others).max(), 0)
                self.assertEqual(numpy.abs(found[len(read[at]):]).max(), 0)
                found, right = found[:len(read[at])], right[read[at]]
            self.assertTrue(numpy.allclose(found, right, rtol=1e-5, atol=1e-7), (at, found, right))

    def test_the_only_input_has_the_name_of_the_data(self):
        import keras

        model = keras.Sequential([
            keras.Input((5,)), keras.layers.Embedding(10, 4, name="words"), keras.layers.Flatten(),
            keras.layers.Dense(1)])
        document = self.export(model, {"words": "text"})
        self.assertEqual(document["inputs"], [{"name": "text", "shape": [5], "dtype": "int32"}])
        self.assertEqual(document["variables"][0]["table"], {"columns": ["text"]})

    def test_a_child_computes_with_rows(self):
        import numpy
        import paracord.keras

        program = paracord.keras.program(self.model, "mean_squared_error", tables=self.tables)
        self.assertTrue(program.all_rows)
        loss, expected = self.keras_gradients()
        ids = {name: numpy.unique(numpy.append(each, 0)) for name, each in self.ids.items()}
        numbers = {name: numpy.searchsorted(ids[name], self.ids[name]) for name in ids}
        values = [numpy.asarray(v) for v in self.model.trainable_variables]
        for at, variable in enumerate(program.variables):
            if variable.table:
                values[at] = values[at][ids[variable.table.columns[0]]]
        gradients = [numpy.full(v.shape, 9, "f4") for v in values]
        batch = paracord.Batch(8, {**numbers, "age": self.ages}, {"": self.y}, {})
        self.assertAlmostEqual(program.gradients(values, batch, gradients, None), float(loss),
                               places=6)
        self.assertTrue(numpy.allclose(gradients[0], expected[0][ids["seen"]], atol=1e-7))

    def refuses(self, why, model, tables):
        import paracord

        with self.assertRaisesRegex(paracord.ProgramError, why):
            self.export(model, tables)

    def test_what_is_no_table_is_said_by_layer_and_variable(self):
        import keras

        layers = keras.layers
        self.refuses("no Embedding 'user' to be a table; there are 'people', 'films'",
                     self.model, {"user": "seen"})
        self.refuses(r"no Embedding 'film' to be a table; did you mean 'films'\?",
                     self.model, {"film": "seen"})
        self.refuses("no Embedding 'dense' to be a table", self.model, {"dense": "seen"})
        self.refuses("table films/embeddings reads the input 'movie', which the model lacks",
                     self.model, {"films": "movie"})
        for option, value in (("embeddings_regularizer", "l2"),
                              ("embeddings_constraint", "NonNeg")):
            films = layers.Embedding(50, 3, name="f", **{option: value})(self.film)
            self.refuses(f"layer 'f': f/embeddings is no table: its {option} acts on every row",
                         keras.Model(self.film, layers.Dense(1)(films)), {"f": "film"})
        self.model.get_layer("films").trainable = False
        self.refuses("layer 'films': films/embeddings is not trained, and no table", self.model,
                     {"films": "film"})

    def test_an_input_with_ids_is_for_nothing_else(self):
        import keras

        layers = keras.layers
        number = keras.ops.cast(self.film, "float32")[:, None]
        twice = layers.Concatenate()([self.films, number])
        self.refuses(r"tables \['films/embeddings'\] have the rows of a batch",
                     keras.Model(self.film, layers.Dense(1)(twice)), {"films": "film"})
        other = layers.Embedding(50, 3, name="other")(self.film)
        self.refuses("the model computes something else",
                     keras.Model(self.film, layers.Dense(1)(layers.Add()([self.films, other]))),
                     {"films": "film"})
        moved = layers.Embedding(50, 3, name="moved")(self.film + 1)
        self.refuses("the model computes something else",
                     keras.Model(self.film, layers.Dense(1)(moved)), {"moved": "film"})


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

    def test_of_replicas_adds_up_each_gradient_and_no_loss(self):
        import jax.interpreters.mlir
        import numpy
        import paracord.jax
        from jax.extend.mlir import ir
        from jax.extend.mlir.dialects import stablehlo

        @paracord.jax.program({"w": numpy.zeros((4, 2), "f4"), "b": numpy.zeros(2, "f4")},
                              predict=lambda p, x: x @ p["w"], outputs=[paracord.Output((2,))])
        def loss(params, x, y):
            return ((x @ params["w"] + params["b"] - y)**2).mean()

        def export(path, program, replicas):
            paracord.jax.export(program, path, inputs={"": (4,)}, targets={"": (2,)}, batch=8,
                                records=20, replicas=replicas)

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a")
            export(path, loss, 4)
            document, codes = _head_and_codes(path)
            export(path, loss, 1)
            plain, plain_codes = _head_and_codes(path)
            for replicas in (0, 3, 512):
                with self.assertRaisesRegex(paracord.ProgramError, "must be a power of two"):
                    export(path, loss, replicas)
            table = paracord.jax.program({"user": numpy.zeros((9, 2), "f4")},
                                         tables={"user": paracord.Table("")})(
                lambda p, x, y: (p["user"][x].sum() - y).mean())
            with self.assertRaisesRegex(paracord.ProgramError, "user is a table"):
                paracord.jax.export(table, path, inputs={"": (4,)}, targets={"": ()}, batch=8,
                                    replicas=2)
        self.assertEqual([(m["kind"], m["batch"], m.get("replicas")) for m in document["modules"]],
                         [("step", 8, None), ("step", 4, None), ("step", 8, 4),
                          ("predict", 8, None)])
        self.assertEqual(document["modules"][2]["results"], document["modules"][0]["results"])
        self.assertEqual([codes[i] for i in (0, 1, 3)], plain_codes)
        with jax.interpreters.mlir.make_ir_context():
            text = str(ir.Module.parse(stablehlo.deserialize_portable_artifact_str(codes[2])))
        self.assertIn("mhlo.num_replicas = 4", text)
        self.assertEqual(text.count("stablehlo.all_reduce"), 2)
        self.assertEqual(text.count("dense<[[0, 1, 2, 3]]>"), 2)

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

    def test_refuses_tables_that_are_read_whole(self):
        import numpy
        import paracord.jax

        @paracord.jax.program({"user": numpy.zeros((1000, 2), "f4")},
                              tables={"user": paracord.Table("seen")})
        def loss(params, seen):
            return params["user"][seen].sum() + 1e-4 * (params["user"]**2).sum()

        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(paracord.ProgramError, "the model computes something els"):
                paracord.jax.export(loss, os.path.join(folder, "a"), inputs={"seen": (5,)},
                                    targets={}, batch=8)
            self.assertEqual(os.listdir(folder), [])

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

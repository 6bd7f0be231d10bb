#!/usr/bin/env python3
"""Programs of StableHLO that a plug-in of XLA's computes, the newest whose wheel is here:
tests/plugins/stablehlo_test.py [CLASS ...]. Tests that lack something are skipped and counted."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True  # the folder stays as it is

from plugin_case import (FASHION, HAS_JAX, HAS_KERAS, HAS_NUMPY, HERE, PROGRAMS,  # noqa: E402
                         ROOT, PluginTest, keras_model, values_of)


@unittest.skipUnless(HAS_KERAS, "no Keras on JAX")
class ResNet18(PluginTest):
    """Its gradients in float32 are far from exact ones: judged beside those in float64."""

    BATCH = 32

    def examples(self):
        import gzip
        import numpy

        def read(name, header):
            with gzip.open(os.path.join(FASHION, name)) as file:
                return numpy.frombuffer(file.read(), numpy.uint8, offset=header)

        x = read("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28, 1)
        return x[:self.BATCH].astype("f4") / 255, read("t10k-labels-idx1-ubyte.gz", 8)[:self.BATCH]

    def gradients(self, text, weights, x, y, dtype):
        """Those of Keras on JAX by name, computed in that type."""
        import jax
        import keras
        import numpy

        exact = dtype == "float64"
        jax.config.update("jax_enable_x64", exact)
        self.addCleanup(jax.config.update, "jax_enable_x64", False)
        model = keras_model(text.replace("float32", dtype))
        names = list(values_of(model))
        for name, variable in zip(names, model.variables):
            variable.assign(weights[name])
        trained = [v.value for v in model.trainable_variables]
        states = [v.value for v in model.non_trainable_variables]

        def loss(trained, states):
            out, _ = model.stateless_call(trained, states, x.astype(dtype), training=True)
            return keras.losses.sparse_categorical_crossentropy(y, out).mean()

        found = jax.jit(jax.grad(loss))(trained, states)
        self.assertTrue(all(g.dtype == numpy.dtype(dtype) for g in found))
        of = {id(v): name for name, v in zip(names, model.variables)}
        jax.config.update("jax_enable_x64", False)
        return {of[id(v)]: numpy.asarray(g) for v, g in zip(model.trainable_variables, found)}

    @unittest.skipUnless(os.path.exists(FASHION), "no Fashion-MNIST")
    def test_gradients_are_as_near_to_exact_ones_as_those_of_jax(self):
        import keras
        import paracord.keras

        path = os.path.join(ROOT, "examples", "fashion-mnist", "models", "resnet18.json")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        x, y = self.examples()
        model = keras_model(text)
        paracord.keras.export(model, "sparse_categorical_crossentropy", self.at("model.program"),
                              batch=self.BATCH)
        self.write_data(x, y)
        self.write_job(loss="sparse_categorical_crossentropy", optimizer="sgd", batch=self.BATCH)
        worst = {"JAX": [], "plug-in": [], "own runtime": []}
        for seed in range(3):
            keras.utils.set_random_seed(seed)
            weights = values_of(keras_model(text))
            exact = self.gradients(text, weights, x, y, "float64")
            found = {"JAX": self.gradients(text, weights, x, y, "float32")}
            for side, file, device in (("plug-in", self.at("model.program"), self.device),
                                       ("own runtime", path, "cpu")):
                out = self.compute(file, device, weights, x, y)
                found[side] = {name: out["gradients/" + name] for name in exact}
            largest = max(abs(g).max() for g in exact.values())
            for side, gradients in found.items():
                worst[side].append(max(abs(gradients[name] - g).max() for name, g in exact.items())
                                   / largest)
        for side, errors in worst.items():
            print(f"ResNet-18, {side}: gradients differ from those in float64 by at most "
                  + ", ".join(f"{error:.2e}" for error in errors) + " of the largest", flush=True)
        for side in ("plug-in", "own runtime"):
            self.assertLessEqual(max(worst[side]), 1.2 * max(worst["JAX"]), side)


@unittest.skipUnless(HAS_KERAS, "no Keras on JAX")
class States(PluginTest):
    def test_averages_and_assigned_states_are_those_of_keras_after_20_steps(self):
        import keras
        import numpy
        import paracord.keras

        layers = keras.layers
        model = keras.Sequential([
            keras.Input((8, 8, 2)), layers.Conv2D(4, 3), layers.BatchNormalization(momentum=0.9),
            layers.ReLU(), layers.Flatten(), layers.SpectralNormalization(layers.Dense(6)),
            layers.BatchNormalization(momentum=0.7), layers.Dense(5)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        paracord.keras.export(model, loss, self.at("model.program"), batch=16,
                              initial={"*vector_u": {"name": "random_normal"}})
        random = numpy.random.default_rng(3)
        x, y = random.normal(1, 2, (160, 8, 8, 2)).astype("f4"), random.integers(0, 5, 160)
        before = values_of(model)
        self.write_data(x, y)
        paracord.save(self.at("start"), before)
        self.write_job(optimizer={"name": "sgd", "learning_rate": 0.05}, batch=16, epochs=2,
                       initial_weights=self.at("start"))
        found = self.train("--ps", "2")
        model.compile(optimizer=keras.optimizers.SGD(0.05), loss=loss)
        model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0)
        want = values_of(model)
        states = [name for name in want if "moving" in name or "vector_u" in name]
        self.assertEqual(len(states), 5)
        for name in states:
            value = want[name]
            self.assertGreater(abs(value - before[name]).max(), 0.01, name)
            self.assertLessEqual(abs(found[name] - value).max(), 1e-5 * abs(value).max(), name)


@unittest.skipUnless(HAS_KERAS, "no Keras on JAX")
class Seeds(PluginTest):
    def test_a_batch_has_its_own_dropout_and_always_the_same(self):
        import keras
        import numpy
        import paracord.keras

        layers = keras.layers
        model = keras.Sequential([
            keras.Input((16,)), layers.Dense(32, name="dense"), layers.Dropout(0.5),
            layers.GaussianNoise(0.1), layers.Dense(3)])
        paracord.keras.export(model, "mean_squared_error", self.at("model.program"), batch=8)
        random = numpy.random.default_rng(4)
        x, y = random.normal(size=(8, 16)).astype("f4"), random.normal(size=(8, 3)).astype("f4")
        self.write_data(x, y)

        def compute(seed):
            # Steps that change nothing: each has another batch's key.
            self.write_job(optimizer={"name": "sgd", "learning_rate": 1e-30}, batch=8, seed=seed)
            return self.compute(self.at("model.program"), self.device, values_of(model), x, y, 3)

        one, again, other = compute(1), compute(1), compute(2)
        self.assertEqual(len(set(one["losses"])), 4)
        self.assertEqual(len({*one["losses"], *other["losses"]}), 8)
        self.assertEqual(one.keys(), again.keys())
        for name, value in one.items():
            self.assertEqual(value.tobytes(), again[name].tobytes(), name)
        self.assertNotEqual(one["gradients/dense/kernel"].tobytes(),
                            other["gradients/dense/kernel"].tobytes())
        self.assertTrue(numpy.allclose(one["output"], model(x), atol=1e-5))  # none is dropped


@unittest.skipUnless(HAS_KERAS, "no Keras on JAX")
class Masks(PluginTest):
    def test_are_those_of_the_own_runtime(self):
        import keras
        import numpy
        import paracord.keras

        layers = keras.layers

        def make(mask):
            keras.utils.set_random_seed(5)
            keras.backend.clear_session()
            return keras.Sequential([
                keras.Input((6,), dtype="int32", name="input_layer"),
                layers.Embedding(10, 4, mask_zero=mask), layers.LSTM(5, return_sequences=True),
                layers.GRU(5), layers.Dense(2)])

        random = numpy.random.default_rng(5)
        x, y = random.integers(1, 10, (8, 6)), random.normal(size=(8, 2)).astype("f4")
        x[numpy.arange(6) >= random.integers(1, 7, (8, 1))] = 0
        self.write_data(x, y)
        self.write_job(loss="mean_squared_error", optimizer="sgd", batch=8)
        found = {}
        for mask in (True, False):
            model = make(mask)
            with open(self.at("model.json"), "w", encoding="utf-8") as file:
                file.write(model.to_json())
            paracord.keras.export(model, "mean_squared_error", self.at("model.program"), batch=8)
            weights = values_of(model)
            own = self.compute(self.at("model.json"), "cpu", weights, x, y)
            found[mask] = self.compute(self.at("model.program"), self.device, weights, x, y)
            self.assertEqual(own.keys(), found[mask].keys())
            largest = max(abs(own[name]).max() for name in own if name.startswith("gradients/"))
            for name, value in own.items():
                scale = largest if name.startswith("gradients/") else 1
                self.assertLessEqual(abs(found[mask][name] - value).max(), 1e-5 * scale, name)
        self.assertGreater(abs(found[True]["output"] - found[False]["output"]).max(), 1e-3)


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class Scores(PluginTest):
    """mlp.program predicts 64 examples at once, whatever the number of records is."""

    TESTED = 150

    def test_metrics_of_predicted_rows_are_those_of_evaluate(self):
        import numpy

        random = numpy.random.default_rng(8)
        patterns = random.normal(size=(10, 28, 28))
        for name, count in (("train", 160), ("test", self.TESTED)):
            labels = random.integers(0, 10, count)
            images = patterns[labels] + random.normal(0, 2, (count, 28, 28))
            numpy.save(self.at(name + "_x.npy"), images.astype("f4"))
            numpy.save(self.at(name + "_y.npy"), labels)
        job = {"model": {"program": "stablehlo", "file": os.path.join(HERE, "mlp.program")},
               "data": {name: {"format": "npy", "features": self.at(name + "_x.npy"),
                               "labels": self.at(name + "_y.npy")} for name in ("train", "test")},
               "loss": {"name": "sparse_categorical_crossentropy", "from_logits": True},
               "metrics": ["sparse_categorical_accuracy"], "batch": 64, "epochs": 2,
               "optimizer": {"name": "adam", "learning_rate": 0.001}}
        with open(self.at("job.json"), "w", encoding="utf-8") as file:
            json.dump(job, file)
        self.run_paracord("train", self.at("job.json"), "--dir", self.at("dir"), "--device",
                          self.device)
        evaluated = json.loads(self.run_paracord("evaluate", self.at("job.json"), "--dir",
                                                 self.at("dir"), "--device", self.device, "--json"))
        self.run_paracord("predict", "--dir", self.at("dir"), "--data", self.at("test_x.npy"),
                          "--out", self.at("scores.csv"), "--device", self.device)
        logits = numpy.loadtxt(self.at("scores.csv"), delimiter=",", skiprows=1)
        self.assertEqual(logits.shape, (self.TESTED, 10))
        labels = numpy.load(self.at("test_y.npy"))
        exps = numpy.exp(logits - logits.max(axis=1, keepdims=True))
        p = (exps / exps.sum(axis=1, keepdims=True))[numpy.arange(self.TESTED), labels]
        self.assertEqual(evaluated["examples"], self.TESTED)
        metrics = evaluated["metrics"]
        self.assertAlmostEqual(metrics["loss"], -numpy.log(p).mean(), delta=1e-6)
        right = (logits.argmax(axis=1) == labels).mean()
        self.assertAlmostEqual(metrics["sparse_categorical_accuracy"], right, delta=1e-6)
        self.assertGreater(right, 0.5)  # better than chance: the order of the rows matters


@unittest.skipUnless(HAS_JAX, "no JAX")
class Replicas(PluginTest):
    DEVICES = 4

    def test_add_up_the_gradients_that_a_worker_adds_up_of_lanes(self):
        import jax
        import numpy
        import paracord.jax

        random = numpy.random.default_rng(8)
        start = {"hidden": {"w": random.normal(size=(6, 5)).astype("f4")},
                 "out": {"w": random.normal(size=(5, 3)).astype("f4")}}

        @paracord.jax.program(start, initial={"*": "initial_weights"})
        def loss(params, x, y, key):
            hidden = jax.numpy.tanh(x @ params["hidden"]["w"])
            kept = jax.random.bernoulli(key, 0.5, hidden.shape)  # each lane has its own
            return ((hidden * kept @ params["out"]["w"] - y)**2).mean()

        # Two rounds of whole batches, and one of a whole batch and a smaller one.
        records = 8 * (2 * self.DEVICES + 1) + 3
        self.write_data(random.normal(size=(records, 6)).astype("f4"),
                        random.normal(size=(records, 3)).astype("f4"))
        paracord.save(self.at("start"), {f"{name}/w": start[name]["w"] for name in start})
        self.device += ":" + ",".join(str(device) for device in range(self.DEVICES))
        flags = mock.patch.dict(os.environ, {
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={self.DEVICES}"})
        found = {}
        for replicas, reduce in ((1, "exact"), (self.DEVICES, "fast")):
            paracord.jax.export(loss, self.at("model.program"), inputs={"": (6,)},
                                targets={"": (3,)}, batch=8, records=records, replicas=replicas)
            self.write_job(optimizer={"name": "sgd", "learning_rate": 0.1}, batch=8, epochs=3,
                           consistency="sync", round_batches=self.DEVICES, reduce=reduce,
                           initial_weights=self.at("start"))
            with flags:
                found[replicas] = self.train("--ps", "2", "--workers", "1", "--trace",
                                             self.at("trace.json"))
            with open(self.at("trace.json"), encoding="utf-8") as file:
                spans = [event["name"] for event in json.load(file)["traceEvents"]]
            self.assertEqual(spans.count("compute run"), 6 if replicas > 1 else 0)
        for name in ("hidden/w", "out/w"):
            lanes, together = found[1][name], found[self.DEVICES][name]
            largest = abs(lanes - start[name[:-2]]["w"]).max()
            self.assertGreater(largest, 0.01, name)
            self.assertLessEqual(abs(lanes - together).max(), 1e-5 * largest, name)


@unittest.skipUnless(HAS_JAX, "no JAX")
class WholeNumbers(PluginTest):
    def test_beyond_float32_reach_the_plugin(self):
        import jax
        import numpy
        import paracord.jax

        first = 2**40
        jax.config.update("jax_enable_x64", True)
        self.addCleanup(jax.config.update, "jax_enable_x64", False)

        @paracord.jax.program({"times": numpy.zeros(4, "f4")}, dtypes={"inputs": {"": "int64"}})
        def loss(params, ids, _):
            return -params["times"][ids - first].sum()

        paracord.jax.export(loss, self.at("model.program"), inputs={"": (3,)}, targets={"": ()},
                            batch=16, records=40)
        ids = first + numpy.random.default_rng(6).integers(0, 4, (40, 3))
        self.write_data(ids, numpy.zeros(40, "f4"))
        self.write_job(optimizer={"name": "sgd", "learning_rate": 1}, batch=16, epochs=3)
        self.assertEqual(list(self.train()["times"]),
                         list(3 * numpy.bincount((ids - first).ravel(), minlength=4)))


@unittest.skipUnless(HAS_NUMPY, "no NumPy")
class Tables(PluginTest):
    """counting_rows.program counts the occurrences of ids."""

    EPOCHS = 300

    def test_rows_count_exactly_through_kills_of_workers(self):
        self.check_counts(growing=False)

    def test_rows_of_a_growing_table_do_so_too(self):
        self.check_counts(growing=True)

    def check_counts(self, growing):
        import numpy
        import paracord
        from counting_rows import BATCH, IDS, RECORDS, ROWS, WIDTH

        random = numpy.random.default_rng(7)

        def draw(records):
            few = random.integers(0, 2, (records, IDS)) == 0
            drawn = numpy.where(few, random.integers(0, 10, few.shape),
                                random.integers(0, ROWS, few.shape))
            return drawn * 2**40 + drawn if growing else drawn  # beyond what float32 has

        seen, test = draw(RECORDS), draw(100)
        self.write_data(seen, numpy.zeros(RECORDS, "f4"))
        numpy.save(self.at("test.npy"), test)
        numpy.save(self.at("want.npy"), numpy.zeros(len(test), "f4"))
        data = {name: {"format": "npy", "features": {"seen": self.at(x)}, "labels": self.at(y)}
                for name, x, y in (("train", "x.npy", "y.npy"), ("test", "test.npy", "want.npy"))}
        self.write_job(
            model={"program": "stablehlo", "file": os.path.join(HERE, "counting_rows.program")},
            data=data, optimizer={"name": "sgd", "learning_rate": 1}, batch=BATCH,
            epochs=self.EPOCHS, loss="mean_absolute_error",
            **({"tables": {"user": {"kind": "growing"}}} if growing else {}))
        steps = self.EPOCHS * -(-RECORDS // BATCH)
        self.train_and_kill(steps)
        found = paracord.load(self.at("dir"))
        ids, times = numpy.unique(seen, return_counts=True)
        self.assertEqual(found["batches"], steps)
        if growing:
            self.assertEqual(found["user/ids"].tolist(), ids.tolist())
            rows = found["user/rows"]
        else:
            self.assertEqual(int((found["user"].sum(1) > 0).sum()), len(ids))
            rows = found["user"][ids]
        counts = numpy.repeat(self.EPOCHS * times[:, None], WIDTH, axis=1)
        self.assertTrue(numpy.array_equal(rows, counts), abs(rows - counts).max())
        of = dict(zip(ids.tolist(), times.tolist()))
        predicted = [self.EPOCHS * WIDTH * sum(of.get(id, 0) for id in each.tolist())
                     for each in test]
        with open(self.at("dir/summary.json"), encoding="utf-8") as file:
            scored = json.load(file)["metrics"]["test"]["loss"]
        self.assertAlmostEqual(scored / numpy.mean(predicted), 1, 5)

    def train_and_kill(self, steps):
        """Kills workers at several batches; each is started again."""
        process = subprocess.Popen(
            [os.path.join(PROGRAMS, "paracord"), "train", self.at("job.json"), "--dir",
             self.at("dir"), "--ps", "2", "--workers", "2", "--device", self.device],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.end, process)
        killed = []
        for i, task in enumerate(("worker:0", "worker:1", "worker:0", "worker:1")):
            self.wait_for(process, steps * (i + 1) // 6)
            with contextlib.suppress(KeyError):  # it is about to start again
                pid = self.children(process)[task]
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
        said, _ = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, said)
        self.assertGreaterEqual(len(set(killed)), 2, said)

    @staticmethod
    def end(process):
        """As the user would, so that its children end, too."""
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    def wait_for(self, process, batches):
        done = 0
        while done < batches:
            if process.poll() is not None:
                self.fail("it ended early: " + process.stdout.read())
            asked = subprocess.run(
                [os.path.join(PROGRAMS, "paracord"), "status", "--json", "--dir", self.at("dir")],
                capture_output=True, text=True, check=False)
            with contextlib.suppress(ValueError):  # there is no coordinator yet
                done = json.loads(asked.stdout).get("batches_done", 0)
            time.sleep(0.02)

    @staticmethod
    def children(process):
        """Process ids by task, such as "worker:1"."""
        found = {}
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as file:
            pids = file.read().split()
        for pid in pids:
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                    words = file.read().split("\0")
                if "--task" in words:
                    found[words[words.index("--task") + 1]] = int(pid)
        return found


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=1)
    skipped = len(program.result.skipped)
    if skipped and program.result.wasSuccessful():
        print(f"skipped: {skipped} tests, for want of a plug-in's wheel, NumPy, JAX or Keras")
    sys.exit(not program.result.wasSuccessful())

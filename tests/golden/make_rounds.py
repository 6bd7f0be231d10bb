#!/usr/bin/env python3
"""Writes rounds.keras3.json: what Keras makes of a model under MirroredStrategy, with REPLICAS
replicas on logical CPU devices, in UPDATES updates. A synchronous job of so many lanes is held
against it; the test needs no Python. Keras 3 leaves every replica with moving statistics of its own
and saves those of the first; the file has their mean, which is what tf_keras (Keras 2) saves. To
write it again:

  python3 -m venv /tmp/golden && /tmp/golden/bin/pip install keras==3.15.1 tensorflow-cpu
  /tmp/golden/bin/python tests/golden/make_rounds.py
"""
import json
import os

import numpy as np

from oracle import keras, tf

REPLICAS, BATCH, UPDATES = 4, 4, 10  # BATCH examples for each replica
O = keras.optimizers


def rounded(rng, shape):
    return (np.round(rng.uniform(-1, 1, shape) * 256) / 256).astype("float32")


def listed(array):
    return [float(f"{v:.9g}") for v in np.asarray(array, dtype="float64").ravel()]


def make_model():
    layers = [keras.layers.Input((3,), name="in"),
              keras.layers.Dense(4, activation="tanh", name="a"),
              keras.layers.BatchNormalization(momentum=0.8, name="n"),
              keras.layers.Dense(2, name="b")]
    return keras.Sequential(layers, name="m")


def run(name, make_optimizer, strategy):
    with strategy.scope():
        model = make_model()
        model.compile(optimizer=make_optimizer(), loss="mse")
    model.set_weights(weights)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH * REPLICAS)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    model.fit(data.with_options(options), epochs=1, verbose=0)
    config = json.loads(json.dumps(O.serialize(make_optimizer()), default=float))
    return {"name": name, "optimizer": config,
            "after": {path: listed(mean(w)) for path, w in zip(PATHS, model.weights)}}


def mean(variable):
    return np.mean([value.numpy() for value in strategy.experimental_local_results(variable.value)],
                   axis=0)


devices = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(
    devices[0], [tf.config.LogicalDeviceConfiguration()] * REPLICAS)
rng = np.random.default_rng(11)
model = make_model()
PATHS = [w.path.split("/", 1)[1] for w in model.weights]
weights = [rounded(rng, w.shape) for w in model.get_weights()]
weights[PATHS.index("n/moving_variance")] = np.abs(
    weights[PATHS.index("n/moving_variance")]) + np.float32(0.5)
x, y = rounded(rng, (REPLICAS * BATCH * UPDATES, 3)), rounded(rng, (REPLICAS * BATCH * UPDATES, 2))
strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(REPLICAS)])
cases = [run("sgd", lambda: O.SGD(0.1), strategy),
         run("momentum", lambda: O.SGD(0.1, momentum=0.9), strategy),
         run("adam", lambda: O.Adam(0.02), strategy)]
head = {"model": json.loads(model.to_json()), "replicas": REPLICAS, "batch": BATCH,
        "updates": UPDATES, "inputs": listed(x), "targets": listed(y),
        "weights": {p: listed(w) for p, w in zip(PATHS, weights)}}
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rounds.keras3.json")
with open(path, "w") as out:
    out.write(json.dumps(head, separators=(",", ":"))[:-1] + ',"cases":[\n' +
              ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]}\n")

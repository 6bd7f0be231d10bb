#!/usr/bin/env python3
"""Writes optimizers.keras3.json (with --keras2, optimizers.keras2.json):
what Keras' optimizers make of one
small model in some steps on one batch. `paracord compute` is held against it; the test needs no
Python. To write them again:

  python3 -m venv /tmp/golden && /tmp/golden/bin/pip install keras==3.15.1 tensorflow-cpu tf_keras
  /tmp/golden/bin/python tests/golden/make_optimizers.py
  /tmp/golden/bin/python tests/golden/make_optimizers.py --keras2
"""
import json
import os

import numpy as np

from oracle import KERAS2, keras

O = keras.optimizers
S = keras.optimizers.schedules
STEPS = 5


def rounded(rng, shape):
    return (np.round(rng.uniform(-1, 1, shape) * 256) / 256).astype("float32")


def listed(array):
    return [float(f"{v:.8g}") for v in np.asarray(array, dtype="float64").ravel()]


def make_model():
    layers = [keras.layers.Input((3,), name="in"),
              keras.layers.Dense(4, activation="tanh", name="a"),
              keras.layers.Dense(2, name="b")]
    return keras.Sequential(layers, name="m")


def keras3_cases():
    yield "sgd", O.SGD(0.1)
    yield "sgd_momentum", O.SGD(0.1, momentum=0.9)
    yield "sgd_nesterov", O.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.05)
    yield "adagrad", O.Adagrad(0.1, initial_accumulator_value=0.2, epsilon=1e-3)
    yield "adadelta", O.Adadelta(0.5, rho=0.8, epsilon=1e-2)
    yield "rmsprop", O.RMSprop(0.01)
    yield "rmsprop_centered", O.RMSprop(0.01, rho=0.7, momentum=0.5, centered=True, epsilon=1e-2)
    yield "adam", O.Adam(0.02)
    yield "amsgrad", O.Adam(0.02, beta_2=0.5, amsgrad=True)
    yield "adamw", O.AdamW(0.02, weight_decay=0.1)
    yield "adamax", O.Adamax(0.02)
    yield "adamax_options", O.Adamax(0.02, beta_1=0.5, beta_2=0.3, epsilon=0.01, weight_decay=0.1)
    yield "nadam", O.Nadam(0.02)
    yield "nadam_options", O.Nadam(0.02, beta_1=0.5, beta_2=0.8, epsilon=0.01)
    yield "lion", O.Lion(0.01)
    yield "lion_options", O.Lion(0.01, beta_1=0.5, beta_2=0.8, weight_decay=0.1)
    yield "ftrl", O.Ftrl(0.1)
    yield "ftrl_options", O.Ftrl(0.1, initial_accumulator_value=0.3,
                                 l1_regularization_strength=0.05, l2_regularization_strength=0.1,
                                 l2_shrinkage_regularization_strength=0.2, beta=0.3)
    yield "ftrl_power", O.Ftrl(0.1, learning_rate_power=-0.8)
    yield "clipvalue", O.SGD(0.1, clipvalue=0.1)
    yield "clipnorm", O.SGD(0.1, clipnorm=0.4)
    yield "global_clipnorm", O.Adam(0.02, global_clipnorm=0.5, epsilon=0.1)
    yield "ema", O.SGD(0.1, use_ema=True, ema_momentum=0.6)
    yield "ema_overwrite", O.Adam(0.02, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2,
                                  amsgrad=True)
    yield "exponential", O.SGD(S.ExponentialDecay(0.2, 2, 0.5))
    yield "exponential_staircase", O.SGD(S.ExponentialDecay(0.2, 2, 0.5, staircase=True))
    yield "inverse_time", O.SGD(S.InverseTimeDecay(0.2, 3, 0.5), momentum=0.5)
    yield "piecewise", O.SGD(S.PiecewiseConstantDecay([1, 3], [0.2, 0.1, 0.05]))
    yield "polynomial", O.SGD(S.PolynomialDecay(0.2, 3, 0.01, power=2.0))
    yield "polynomial_cycle", O.SGD(S.PolynomialDecay(0.2, 2, 0.01, cycle=True))
    yield "cosine", O.SGD(S.CosineDecay(0.2, 4, alpha=0.1))
    yield "cosine_warmup", O.SGD(S.CosineDecay(0.0, 4, warmup_target=0.2, warmup_steps=2))
    yield "cosine_restarts", O.AdamW(S.CosineDecayRestarts(0.05, 2, t_mul=1.5, m_mul=0.8,
                                                           alpha=0.1), weight_decay=0.1)
    yield "cosine_restarts_even", O.SGD(S.CosineDecayRestarts(0.2, 2, t_mul=1.0))


def keras2_cases():
    legacy = O.legacy
    for name, optimizer in [
            ("sgd", O.SGD(0.1, momentum=0.9, nesterov=True)), ("adagrad", O.Adagrad(0.1)),
            ("adadelta", O.Adadelta(0.5, epsilon=1e-2)), ("rmsprop", O.RMSprop(0.01)),
            ("adam", O.Adam(0.02, amsgrad=True)), ("adamw", O.AdamW(0.02, weight_decay=0.1)),
            ("adamax", O.Adamax(0.02)), ("nadam", O.Nadam(0.02)), ("lion", O.Lion(0.01)),
            ("ftrl", O.Ftrl(0.1, l1_regularization_strength=0.05, beta=0.3))]:
        yield name, optimizer
    yield "clipnorm", O.SGD(0.1, clipnorm=0.4)
    yield "global_clipnorm", O.SGD(0.1, global_clipnorm=0.5)
    yield "schedule", O.SGD(S.ExponentialDecay(0.2, 2, 0.5))
    yield "legacy_sgd", legacy.SGD(0.1, momentum=0.9, nesterov=True, decay=0.3)
    yield "legacy_adam", legacy.Adam(0.02, decay=0.5)
    yield "legacy_amsgrad", legacy.Adam(0.02, amsgrad=True, beta_2=0.5)
    yield "legacy_rmsprop", legacy.RMSprop(0.01, momentum=0.5, centered=True, epsilon=1e-2)
    yield "legacy_adadelta", legacy.Adadelta(0.5, epsilon=1e-2)
    yield "legacy_adamax", legacy.Adamax(0.02)
    yield "legacy_ftrl", legacy.Ftrl(0.1, l1_regularization_strength=0.05,
                                     l2_regularization_strength=0.1,
                                     l2_shrinkage_regularization_strength=0.2, beta=0.3)


def with_exclusions():
    optimizer = O.AdamW(0.02, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer


def run(name, optimizer, weights, x, y, exclude=None):
    model = make_model()
    model.set_weights(weights)
    # Inside a tf.function, Keras 2's Nadam counts its product of momenta in Python, while tracing.
    model.compile(optimizer=optimizer, loss="mse", run_eagerly=KERAS2)
    for _ in range(STEPS):
        model.train_on_batch(x, y)
    config = json.loads(json.dumps(O.serialize(optimizer), default=float))
    if exclude:
        config["config"]["exclude_from_weight_decay"] = exclude
    result = {"name": name, "optimizer": config,
              "after": {path: listed(w) for path, w in zip(PATHS, model.get_weights())}}
    if getattr(optimizer, "use_ema", False):
        result["averages"] = {path: listed(v.numpy()) for path, v in
                              zip(PATHS, optimizer._model_variables_moving_average)}
    return result


PATHS = ["a/kernel", "a/bias", "b/kernel", "b/bias"]
rng = np.random.default_rng(5)
model = make_model()
weights = [rounded(rng, w.shape) for w in model.get_weights()]
x, y = rounded(rng, (6, 3)), rounded(rng, (6, 2))
cases = [run(name, o, weights, x, y) for name, o in (keras2_cases() if KERAS2 else keras3_cases())]
if not KERAS2:
    cases.append(run("exclusions", with_exclusions(), weights, x, y, ["bias"]))
path = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                    "optimizers.keras2.json" if KERAS2 else "optimizers.keras3.json")
head = {"model": json.loads(model.to_json()), "steps": STEPS, "examples": 6, "inputs": listed(x),
        "targets": listed(y), "weights": {p: listed(w) for p, w in zip(PATHS, weights)}}
with open(path, "w") as out:
    out.write(json.dumps(head, separators=(",", ":"))[:-1] + ',"cases":[\n' +
              ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]}\n")

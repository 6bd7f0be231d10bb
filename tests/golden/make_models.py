#!/usr/bin/env python3
"""Writes models.keras3.json (with --keras2, models.keras2.json):
small models with Keras' own numbers.

Each case has the model as to_json() writes it, weights, a batch, and what Keras computes from them:
the output, the loss, its gradients and the metrics of an evaluation. The tests compare ours with
these; they need no Python. To write them again:

  python3 -m venv /tmp/golden && /tmp/golden/bin/pip install keras==3.15.1 'jax[cpu]'
  KERAS_BACKEND=jax /tmp/golden/bin/python tests/golden/make_models.py
  /tmp/golden/bin/pip install tensorflow-cpu tf_keras
  /tmp/golden/bin/python tests/golden/make_models.py --keras2
"""
import json
import os
import sys

import numpy as np

KERAS2 = "--keras2" in sys.argv
if KERAS2:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf
    import tf_keras as keras
else:
    os.environ.setdefault("KERAS_BACKEND", "jax")
    import jax
    import keras

L = keras.layers
ACTIVATIONS = ["linear", "relu", "sigmoid", "tanh", "softmax", "elu", "selu", "softplus",
               "softsign", "gelu", "swish", "exponential", "hard_sigmoid", "leaky_relu", "silu"]
if KERAS2:
    ACTIVATIONS = [a for a in ACTIVATIONS if a not in ("leaky_relu", "silu")]
SPARSE = "sparse_categorical_crossentropy"


def rounded(rng, shape, scale=1.0):
    """Multiples of 1/256, which are short in decimal and exact in binary."""
    return (np.round(rng.uniform(-scale, scale, shape) * 256) / 256).astype("float32")


def named(loss, logits):
    if not logits:
        return loss
    classes = {SPARSE: keras.losses.SparseCategoricalCrossentropy,
               "categorical_crossentropy": keras.losses.CategoricalCrossentropy,
               "binary_crossentropy": keras.losses.BinaryCrossentropy}
    return classes[loss](from_logits=True)


def gradients_of(model, loss, x, y):
    if KERAS2:
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(loss(y, model(x, training=True)))
        return float(value), [g.numpy() for g in tape.gradient(value, model.trainable_variables)]
    fixed = [v.value for v in model.non_trainable_variables]

    def compute(trainable):
        output, _ = model.stateless_call(trainable, fixed, x, training=True)
        return loss(y, output)

    value, grads = jax.value_and_grad(compute)([v.value for v in model.trainable_variables])
    return float(value), [np.asarray(g) for g in grads]


def listed(array):
    return [float(f"{v:.8g}") for v in np.asarray(array, dtype="float64").ravel()]


def path_of(model, variable):
    path = variable.name.split(":")[0] if KERAS2 else variable.path
    prefix = model.name + "/"
    return path[len(prefix):] if path.startswith(prefix) else path


def case(name, layers, shape, loss="mean_squared_error", targets=None, metrics=(), logits=False,
         built=True, compiled=False, classes=0):
    if KERAS2:
        keras.backend.clear_session()
    else:
        keras.utils.clear_session()
    rng = np.random.default_rng(sum(map(ord, name)))
    if built:
        layers = [L.Input(shape)] + layers
    model = keras.Sequential(layers, name=name)
    text = None if built else model.to_json()
    x = rounded(rng, (3,) + shape)
    output = model(x)
    model.set_weights([rounded(rng, w.shape) for w in model.get_weights()])
    output = np.asarray(model(x, training=False))
    target_shape = output.shape if targets is None else (3,) + targets
    if classes:
        y = rng.integers(0, classes, target_shape).astype("float32")
    elif loss == "categorical_crossentropy":
        y = np.eye(output.shape[-1], dtype="float32")[rng.integers(0, output.shape[-1],
                                                                   output.shape[:-1])]
    else:
        y = rounded(rng, target_shape)
    function = named(loss, logits)
    function = function if logits else keras.losses.get(
        "".join(part.capitalize() for part in loss.split("_")))
    if isinstance(function, type):
        function = function()
    value, grads = gradients_of(model, function, x, y)
    model.compile(optimizer="sgd", loss=function, metrics=list(metrics))
    scores = model.evaluate(x, y, batch_size=3, verbose=0, return_dict=True)
    if text is None:
        text = model.to_json() if compiled else None
    if text is None:
        model2 = keras.Sequential.from_config(model.get_config())
        text = model2.to_json()
    print(f"{name}: loss {value:.6f}")
    return {"name": name, "model": json.loads(text), "loss": loss, "from_logits": logits,
            "input_shape": shape, "target_shape": target_shape[1:], "examples": 3,
            "inputs": listed(x), "targets": listed(y), "output": listed(output),
            "loss_value": value, "scores": {k: float(v) for k, v in scores.items()},
            "weights": {path_of(model, v): listed(v) for v in model.variables
                        if "seed" not in v.name},
            "gradients": {path_of(model, v): listed(g)
                          for v, g in zip(model.trainable_variables, grads)}}


def cases():
    yield case("mlp", [L.Flatten(), L.Dense(5, activation="relu"),
                       L.Dense(3, activation="softmax")], (4, 4), SPARSE, (), ["accuracy"],
               classes=3, compiled=True)
    yield case("cnn", [L.Conv2D(3, 3, activation="relu"), L.MaxPooling2D(),
                       L.Conv2D(4, 2, activation="relu"), L.Flatten(),
                       L.Dense(4, activation="relu"), L.Dense(3, activation="softmax")],
               (8, 8, 1), SPARSE, (), ["accuracy"], classes=3)
    yield case("conv_strides_same", [L.Conv2D(2, (3, 2), strides=(2, 3), padding="same",
                                              activation="tanh")], (5, 7, 2))
    yield case("conv_even_same", [L.Conv2D(2, (4, 2), padding="same")], (5, 6, 1))
    yield case("conv_dilation", [L.Conv2D(2, 2, dilation_rate=(2, 3))], (6, 6, 2))
    yield case("conv_dilation_same", [L.Conv2D(2, 3, dilation_rate=2, padding="same"),
                                      L.Conv2D(1, 2)], (6, 5, 1))
    # On the processor, tf_keras has no gradient of grouped convolutions.
    if not KERAS2:
        yield case("conv_groups", [L.Conv2D(6, 2, groups=2, use_bias=False, activation="relu"),
                                   L.Conv2D(3, 2, groups=3)], (5, 5, 4))
    yield case("conv_channels", [L.Conv2D(17, 3, padding="same", activation="relu"),
                                 L.Conv2D(2, 1)], (3, 3, 3))
    yield case("max_pool_same", [L.Conv2D(2, 1), L.MaxPooling2D(3, strides=2, padding="same")],
               (6, 7, 1))
    yield case("max_pool_overlap", [L.Conv2D(2, 1), L.MaxPooling2D((3, 2), strides=(1, 2))],
               (5, 6, 1))
    yield case("average_pool", [L.Conv2D(2, 1), L.AveragePooling2D((2, 3))], (5, 7, 1))
    yield case("average_pool_same", [L.Conv2D(2, 1),
                                     L.AveragePooling2D(3, strides=2, padding="same")], (6, 5, 1))
    yield case("rescaling_reshape", [L.Rescaling(0.25, offset=-0.5), L.Reshape((4, -1, 1)),
                                     L.Conv2D(2, 2), L.Reshape((-1,)), L.Dense(2)], (16,))
    yield case("unbuilt", [L.Flatten(), L.Dense(3, activation="relu"), L.Dense(2)], (2, 3),
               built=False)
    yield case("dense_rank3", [L.Dense(3, activation="relu"), L.Dense(2, use_bias=False)], (4, 3))
    yield case("sparse_rank3", [L.Dense(4, activation="softmax")], (5, 3), SPARSE, (5,),
               ["accuracy"], classes=4)
    yield case("sparse_logits", [L.Dense(4)], (3,), SPARSE, (1,), ["accuracy"], logits=True,
               classes=4)
    yield case("categorical", [L.Dense(4, activation="softmax")], (3,), "categorical_crossentropy",
               None, ["accuracy"])
    # With TensorFlow, and so do we, Keras takes the logits of the sigmoid for those of a softmax.
    if KERAS2:
        yield case("categorical_of_sigmoid", [L.Dense(4, activation="sigmoid")], (3,),
                   "categorical_crossentropy", None, ["categorical_accuracy"])
    yield case("binary", [L.Dense(1, activation="sigmoid")], (3,), "binary_crossentropy", (1,),
               ["accuracy", "mae"], classes=2)
    yield case("binary_logits", [L.Dense(2)], (3,), "binary_crossentropy", None,
               ["binary_accuracy"], logits=True, classes=2)
    yield case("binary_of_hard_sigmoid", [L.Dense(3, activation="hard_sigmoid")], (3,),
               "binary_crossentropy", None, ["binary_accuracy"], classes=2)
    yield case("mae", [L.Dense(3, activation="tanh"), L.Dense(2)], (4,), "mean_absolute_error",
               None, ["mse", "mae"])
    frozen = L.Dense(3, activation="relu")
    frozen.trainable = False
    yield case("frozen", [L.Dense(3), frozen, L.Dense(2)], (3,))
    yield case("activation_layer", [L.Dense(4), L.Activation("elu"), L.Dense(2),
                                    L.Activation("softmax")], (3,), SPARSE, (), classes=2)
    for activation in ACTIVATIONS:
        yield case("activation_" + activation, [L.Dense(6, activation=activation), L.Dense(2)],
                   (4,))


result = list(cases())
path = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                    "models.keras2.json" if KERAS2 else "models.keras3.json")
with open(path, "w") as out:
    out.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in result) + "\n]\n")

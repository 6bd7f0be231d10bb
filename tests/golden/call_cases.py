"""Models for make_graphs.py, as those of graph_cases.py: what masks do to a merge, what is frozen
from outside, and what a call says of training."""
import json

from graph_cases import draw, steps

CASES = {}


def case(build):
    CASES[build.__name__] = build
    return build


def masked(keras, rng, merge):
    """Both masked, one masked (on either side), three inputs, and one that is broadcast."""
    L = keras.layers
    a, b = L.Input((5, 3), name="a"), L.Input((5, 3), name="b")
    m = L.Dense(3, name="d")(L.Masking(name="ma")(a))
    n = L.Dense(3, name="e")(L.Masking(name="mb")(b))
    one = L.Dense(1, name="f")(m)
    merged = [merge(name="both")([m, n]), merge(name="first")([m, b]),
              merge(name="second")([b, m]), merge(name="three")([m, n, m]),
              merge(name="gap")([n, b, m]), merge(name="wide")([m, one])]
    flat = [L.Flatten(name=f"flat{i}")(v) for i, v in enumerate(merged)]
    last = [L.GRU(2, name=f"g{i}")(v) for i, v in enumerate(merged)]
    out = L.Dense(2, name="out")(L.Concatenate(name="cat")(flat + last))
    x = {"a": steps(rng, 3, 5, 3), "b": steps(rng, 3, 5, 3)[::-1].copy()}
    x["a"][2, 3:] = 0
    x["b"][2, 1:] = 0
    return {"model": keras.Model([a, b], out, name="m"), "x": x, "y": draw(rng, 3, 2),
            "loss": "mse", "scale": 0.5}


@case
def maximum_under_masks(keras, keras2, rng):
    return masked(keras, rng, keras.layers.Maximum)


@case
def minimum_under_masks(keras, keras2, rng):
    return masked(keras, rng, keras.layers.Minimum)


@case
def frozen_wrappers(keras, keras2, rng):
    """In Keras 2 a wrapper that is frozen freezes what it wraps, whatever that says, but for the
    mode of a BatchNormalization and its averages. In Keras 3 the layer within says."""
    L = keras.layers
    a = L.Input((5, 3), name="a")
    h = L.TimeDistributed(L.Dense(3, kernel_regularizer="l2", name="d"), name="t",
                          trainable=False)(L.Dense(3, name="p")(a))
    h = L.TimeDistributed(L.BatchNormalization(momentum=0.75, name="n"), name="u",
                          trainable=False)(h)
    h = L.Bidirectional(L.GRU(2, kernel_regularizer="l2", name="g"), name="b",
                        trainable=False)(h)
    return {"model": keras.Model(a, L.Dense(2, name="out")(h), name="m"),
            "x": {"a": draw(rng, 3, 5, 3)}, "y": draw(rng, 3, 2), "loss": "mse"}


@case
def training_of_calls(keras, keras2, rng):
    """In Keras 2 what a call says of training counts, in Keras 3 the run's mode does."""
    L = keras.layers
    a = L.Input((4,), name="a")
    if keras2:  # Keras 3 would draw
        h = L.Dropout(0.5, name="drop")(a, training=False)
        h = L.GaussianNoise(1.0, name="noise")(h, training=False)
    else:
        h = a
    h = L.Dense(4, activation="tanh", name="d")(h)
    h = L.BatchNormalization(momentum=0.75, name="off")(h, training=False)
    h = L.BatchNormalization(momentum=0.75, name="free")(h)
    return {"model": keras.Model(a, L.Dense(2, name="out")(h), name="m"),
            "x": {"a": draw(rng, 5, 4)}, "y": draw(rng, 5, 2), "loss": "mse"}


@case
def training_of_inner_models(keras, keras2, rng):
    """It counts for all layers within, but for those that say otherwise."""
    L = keras.layers

    def norm(name):
        return L.BatchNormalization(momentum=0.75, epsilon=0.25, name=name)
    i = L.Input((3, 4), name="i")
    h = L.TimeDistributed(norm("n"), name="t")(i)
    h = L.Bidirectional(L.LSTM(2, return_sequences=True, name="l",
                               **({"dropout": 0.5, "recurrent_dropout": 0.5} if keras2 else {})),
                        name="b")(h)
    h = L.MultiHeadAttention(1, 2, dropout=0.5 if keras2 else 0.0, name="h")(h, h)
    h = L.Attention(dropout=0.5 if keras2 else 0.0, name="s")([h, h])
    h = L.Activation("tanh", name="w")(h)  # what is constant over a batch would be taken away
    deep = keras.Sequential([L.Input((3, 4)), norm("k"), L.Dense(2, activation="tanh", name="f")],
                            name="deep")
    h = deep(h)
    base = keras.Model(i, norm("on")(h, training=True), name="base")
    a = L.Input((3, 4), name="a")
    h = L.Flatten(name="flat")(base(a, training=False))
    return {"model": keras.Model(a, L.Dense(2, name="out")(h), name="m"),
            "x": {"a": draw(rng, 6, 3, 4)}, "y": draw(rng, 6, 2), "loss": "mse"}


@case
def outputs_of_shared_models(keras, keras2, rng):
    """Keras 3 counts the calls of an inner model from 1 among the outputs, and nowhere else."""
    L = keras.layers
    i = L.Input((3,), name="i")
    inner = keras.Model(i, L.Dense(3, activation="tanh", name="d")(i), name="inner")
    tail = keras.Sequential([L.Input((3,)), L.Dense(3, name="s")], name="tail")
    a, b = L.Input((3,), name="a"), L.Input((3,), name="b")
    once, other = inner(a), inner(b)
    m = keras.Model([a, b], [tail(L.Add(name="sum")([once, other])), inner(once)], name="m")
    return {"model": m, "x": {"a": draw(rng, 4, 3), "b": draw(rng, 4, 3)},
            "y": [draw(rng, 4, 3), draw(rng, 4, 3)], "loss": "mse"}


@case
def model_in_two_models(keras, keras2, rng):
    """Each has variables of its own once the file is read."""
    L = keras.layers
    i = L.Input((3,), name="i")
    deep = keras.Model(i, L.Dense(3, activation="tanh", name="d")(i), name="deep")
    inner = keras.Model(i, deep(deep(i)), name="inner")
    a = L.Input((3,), name="a")
    m = keras.Model(a, L.Subtract(name="s")([deep(a), inner(a)]), name="m")
    return {"model": keras.models.model_from_json(m.to_json()), "x": {"a": draw(rng, 4, 3)},
            "y": draw(rng, 4, 3), "loss": "mse"}


@case
def models_called_with_dicts(keras, keras2, rng):
    L = keras.layers
    p, q = L.Input((3,), name="z"), L.Input((3,), name="b1")

    def difference(name):
        return L.Subtract(name=name)([L.Dense(3, name=name + "d")(p), q])
    of_dict = keras.Model({"z": p, "b1": q}, difference("u"), name="of_dict")
    of_list = keras.Model([p, q], difference("v"), name="of_list")
    a, b = L.Input((3,), name="a"), L.Input((3,), name="b")
    out = L.Concatenate(name="cat")([of_dict({"b1": a, "z": b}), of_list({"b1": b, "z": a})])
    return {"model": keras.Model([a, b], out, name="m"),
            "x": {"a": draw(rng, 4, 3), "b": draw(rng, 4, 3)}, "y": draw(rng, 4, 6), "loss": "mse"}


@case
def frozen_outermost_model(keras, keras2, rng):
    """Trains nothing in Keras 3, whatever its layers say; averages move, penalties are gone."""
    L = keras.layers
    i = L.Input((3,), name="i")
    inner = keras.Model(i, L.Dense(3, activation="tanh", name="d")(i), name="inner")
    a = L.Input((3,), name="a")
    h = L.BatchNormalization(momentum=0.75, name="n")(inner(a))
    m = keras.Model(a, L.Dense(2, kernel_regularizer="l2", name="out")(h), name="m")
    file = json.loads(m.to_json())
    file["config"]["trainable"] = False
    return {"model": keras.models.model_from_json(json.dumps(file)), "x": {"a": draw(rng, 4, 3)},
            "y": draw(rng, 4, 2), "loss": "mse"}


@case
def frozen_inner_model(keras, keras2, rng):
    """By its own flag alone, which says nothing."""
    L = keras.layers
    i = L.Input((3,), name="i")
    inner = keras.Model(i, L.BatchNormalization(momentum=0.75, name="n")(
        L.Dense(3, activation="tanh", kernel_regularizer="l2", name="d")(i)), name="inner")
    a = L.Input((3,), name="a")
    m = keras.Model(a, L.Dense(2, name="out")(inner(a)), name="m")
    file = json.loads(m.to_json())
    file["config"]["layers"][1]["config"]["trainable"] = False
    return {"model": keras.models.model_from_json(json.dumps(file)), "x": {"a": draw(rng, 4, 3)},
            "y": draw(rng, 4, 2), "loss": "mse"}

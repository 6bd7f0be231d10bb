"""Models for make_graphs.py, as those of graph_cases.py: what masks do to a merge, what is frozen
from outside, and what a call says of training."""
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

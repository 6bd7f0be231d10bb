"""Models for make_graphs.py at the edges of what people write: an output of a Bidirectional that is
not merged, an ignored class of sigmoids, vectors near to zero, rows that a hard_shrink empties."""
import numpy as np

from graph_cases import draw, one, tokens

CASES = {}


def case(build):
    CASES[build.__name__] = build
    return build


@case
def ignore_class_sigmoid(keras, keras2, rng):
    """Keras 3 masks the outputs of the ignored class, and so has no logits."""
    return one(keras, [keras.layers.Dense(3, activation="sigmoid", name="out")], draw(rng, 6, 4),
               np.asarray([[0], [1], [2], [1], [0], [2]], "float32"),
               keras.losses.SparseCategoricalCrossentropy(ignore_class=1))


@case
def dot_of_short_vectors(keras, keras2, rng):
    """Around the length below which normalize stops dividing."""
    L = keras.layers
    a, b = L.Input((4,), name="a"), L.Input((4,), name="b")
    short = [L.Rescaling(scale)(L.Dense(3, use_bias=False, name=name)(x))
             for scale, name, x in ((1e-7, "l", a), (3e-8, "r", b))]
    dot = L.Dot(axes=-1, normalize=True, name="dot")(short)
    model = keras.Model([a, b], L.Dense(1, name="out")(dot), name="m")
    return {"model": model, "x": {"a": draw(rng, 4, 4), "b": draw(rng, 4, 4)},
            "y": draw(rng, 4, 1), "loss": "mse"}


@case
def cosine_of_short_vectors(keras, keras2, rng):
    L = keras.layers
    return one(keras, [L.Dense(3, name="d"), L.Rescaling(1e-7, name="out")], draw(rng, 5, 4),
               draw(rng, 5, 3), "cosine_similarity")


@case
def norm_of_hard_shrink(keras, keras2, rng):
    """Rows that are all zero: 0 times an infinite slope is no number, and Keras selects 0."""
    L = keras.layers
    x = L.Input((3, 4), name="x")
    h = L.Dense(2, activation="hard_shrink", name="d")(L.Rescaling(0.3)(x))
    length = keras.ops.sqrt(keras.ops.sum(h * h, axis=-1))
    model = keras.Model(x, L.Dense(1, name="out")(length), name="m")
    return {"model": model, "x": {"x": draw(rng, 4, 3, 4)}, "y": draw(rng, 4, 1), "loss": "mse"}


@case
def bidirectional_two_masks(keras, keras2, rng):
    """Without a merge both outputs have the mask."""
    L = keras.layers
    x = L.Input((5,), name="x")
    e = L.Embedding(6, 3, mask_zero=True, name="e")(x)
    one_way, other = L.Bidirectional(L.LSTM(2, return_sequences=True), merge_mode=None,
                                     name="b")(e)
    pooled = [L.GlobalAveragePooling1D(name="p")(one_way), L.GRU(2, name="g")(other)]
    model = keras.Model(x, [L.Dense(2, name="one")(L.Concatenate(name="c")(pooled)),
                            L.Dense(1, name="steps")(other)], name="m")
    return {"model": model, "x": {"x": tokens(rng)}, "loss": "mse",
            "y": {"one": draw(rng, 3, 2), "steps": draw(rng, 3, 5, 1)}}


@case
def bidirectional_two_kinds(keras, keras2, rng):
    """An LSTM forwards and a GRU backwards; a GRU and a SimpleRNN, with their states."""
    L = keras.layers
    x = L.Input((5,), name="x")
    e = L.Embedding(6, 3, mask_zero=True, name="e")(x)
    steps = L.Bidirectional(L.LSTM(2, return_sequences=True), name="a",
                            backward_layer=L.GRU(2, return_sequences=True, go_backwards=True))(e)
    made = L.Bidirectional(L.GRU(3, return_state=True), merge_mode="mul", name="b",
                           backward_layer=L.SimpleRNN(3, return_state=True, go_backwards=True))
    last, one, other = made(steps)
    all_of = L.Concatenate(name="c")([last, one * 2.0, other])
    model = keras.Model(x, L.Dense(2, name="out")(all_of), name="m")
    return {"model": model, "x": {"x": tokens(rng)}, "loss": "mse", "y": draw(rng, 3, 2)}

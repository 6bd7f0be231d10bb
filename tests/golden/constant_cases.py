"""Models for make_graphs.py, as those of graph_cases.py: arrays of numbers where a tensor might be,
masks that calls name, and functions of TensorFlow in Keras 2."""
import numpy as np
import tensorflow as tf

from graph_cases import draw

CASES = {}
MASK = [[True, True, False, True, False]]


def case(build):
    CASES[build.__name__] = build
    return build


def over_steps(keras, rng, build):
    """Of (5, 3), with a layer in front, and several outputs joined."""
    L = keras.layers
    a = L.Input((5, 3), name="a")
    made = build(L, L.Dense(3, activation="tanh", name="d")(a))
    flat = [L.Flatten(name=f"flat{i}")(v) for i, v in enumerate(made)]
    out = L.Dense(2, name="out")(L.Concatenate(name="cat")(flat))
    return {"model": keras.Model(a, out, name="m"), "x": {"a": draw(rng, 3, 5, 3)},
            "y": draw(rng, 3, 2), "loss": "mse", "scale": 0.5}


def array(rng, *shape):
    return tf.constant(draw(rng, *shape))


@case
def constants_in_merges(keras, keras2, rng):
    return over_steps(keras, rng, lambda L, x: [
        L.Add(name="add")([x, array(rng, 1, 5, 3)]),
        L.Add(name="row")([x, array(rng, 1, 3)]),
        L.Average(name="three")([x, array(rng, 1, 5, 3), x]),
        L.Multiply(name="mul")([x, array(rng, 1, 5, 1)]),
        L.Maximum(name="max")([x, array(rng, 1, 5, 3)]),
        L.Subtract(name="sub")([x, array(rng, 1, 1, 3)])])


@case
def constants_in_operators(keras, keras2, rng):
    return over_steps(keras, rng, lambda L, x: [
        x + array(rng, 5, 3), array(rng, 3) - x, x / (array(rng, 1, 5, 3) + 2),
        (array(rng, 5, 1) + 2) / (x + 3.0), x * np.arange(3).astype("float32")])


@case
def constants_in_attention(keras, keras2, rng):
    def build(L, x):
        def attend(name, **more):
            return L.MultiHeadAttention(2, 2, name=name)(x, x, **more)
        causal = np.tril(np.ones((5, 5), bool))
        made = [attend("plain", attention_mask=tf.constant(causal)),
                attend("one", attention_mask=tf.constant(causal[None, ::-1, ::-1])),
                attend("heads", attention_mask=tf.constant(causal[None, None])),
                L.Attention(name="value")([x, array(rng, 1, 4, 3)]),
                L.Attention(name="query")([array(rng, 1, 4, 3), x]),
                L.AdditiveAttention(name="more")([array(rng, 1, 2, 3), x])]
        if not keras2:
            made.append(attend("masked", value_mask=tf.constant(MASK)))
        return made
    return over_steps(keras, rng, build)


@case
def constants_as_masks(keras, keras2, rng):
    mask = tf.constant(MASK)
    return over_steps(keras, rng, lambda L, x: [
        L.GRU(2, return_sequences=True, name="gru")(x, mask=mask),
        L.GlobalAveragePooling1D(name="mean")(x, mask=mask)])


@case
def constants_as_states(keras, keras2, rng):
    if keras2:  # which takes them with the batch only
        return None
    return over_steps(keras, rng, lambda L, x: [
        L.LSTM(2, name="lstm")(x, initial_state=[array(rng, 1, 2), array(rng, 1, 2)]),
        L.GRU(2, name="gru")(x, initial_state=array(rng, 1, 2)),
        L.Bidirectional(L.GRU(2, name="g"), name="bi")(
            x, initial_state=[array(rng, 1, 2), array(rng, 1, 2)])])


@case
def constants_in_products(keras, keras2, rng):
    matmul = tf.matmul if keras2 else keras.ops.matmul

    def build(L, x):
        made = [matmul(x, array(rng, 3, 2)), matmul(array(rng, 4, 5), x),
                matmul(x[:, 0], array(rng, 3, 2)), matmul(x, array(rng, 1, 3, 2))]
        if keras2:
            return made + [tf.matmul(x, array(rng, 2, 3), transpose_b=True),
                           tf.matmul(x, x, transpose_a=True)]
        return made + [matmul(x, array(rng, 3)), matmul(array(rng, 5), x)]
    return over_steps(keras, rng, build)


@case
def constants_in_products_of_stacks(keras, keras2, rng):
    """Matrices in more axes, of which an operand may have fewer."""
    matmul = tf.matmul if keras2 else keras.ops.matmul

    def build(L, x):
        s = L.Reshape((2, 5, 6), name="s")(L.Dense(12, name="e")(x))
        made = [matmul(array(rng, 4, 5), s), matmul(s, L.Reshape((1, 6, 10), name="b")(s)),
                matmul(L.Reshape((1, 3, 5), name="a1")(x), s), matmul(array(rng, 2, 4, 5), s),
                matmul(s, array(rng, 1, 6, 2)), matmul(array(rng, 1, 1, 4, 5), s)]
        if not keras2:
            made += [matmul(array(rng, 5), s), matmul(s, array(rng, 6))]
        return made
    return {**over_steps(keras, rng, build), "scale": 0.25}


@case
def constants_within_models(keras, keras2, rng):
    """In a model inside a Sequential, and as what a model is called with."""
    L = keras.layers
    i, j = L.Input((5, 3), name="i"), L.Input((5, 3), name="j")
    product = keras.Model([i, j], i * j, name="product")
    k = L.Input((5, 3), name="k")
    h = L.Dense(3, name="d")(k) + array(rng, 5, 3)
    inner = keras.Model(k, L.GRU(2, name="g")(product([h, array(rng, 1, 5, 3)])), name="inner")
    model = keras.Sequential([L.Input((5, 3), name="a"),
                              keras.Sequential([L.Input((5, 3)), inner, L.Dense(2, name="e")],
                                               name="mid"),
                              L.Dense(2, name="out")], name="m")
    return {"model": model, "x": {"a": draw(rng, 3, 5, 3)}, "y": draw(rng, 3, 2), "loss": "mse"}


@case
def places_of_steps(keras, keras2, rng):
    L = keras.layers
    a = L.Input((5,), name="a", dtype="int32")
    zeros = a * 0 if keras2 else keras.ops.zeros_like(a)
    h = L.Embedding(7, 3, name="t")(a) + L.Embedding(5, 3, name="p")(
        zeros + np.arange(5, dtype="int32"))
    return {"model": keras.Model(a, L.Dense(2, name="out")(h), name="m"),
            "x": {"a": rng.integers(0, 7, (3, 5)).astype("int32")}, "y": draw(rng, 3, 5, 2),
            "loss": "mse"}


def with_masks(keras, keras2, rng, build):
    """Of the ids a and b, whose masks calls name; build gives the outputs, by steps."""
    L = keras.layers
    a, b = (L.Input((5,), name=name, dtype="int32") for name in "ab")
    different = tf.not_equal if keras2 else keras.ops.not_equal
    plain = L.Embedding(7, 4, name="plain")
    masked = L.Embedding(7, 4, name="masked", mask_zero=True)
    outs = build(L, plain, masked, a, b, different(b, 0))
    names = [f"o{i}" for i in range(len(outs))]
    outs = [L.Dense(2, name=n)(o) for n, o in zip(names, outs)]
    ids = {"a": [[1, 2, 0, 0, 0], [3, 0, 4, 0, 0], [0, 2, 0, 0, 1], [1, 2, 3, 4, 5]],
           "b": [[0, 1, 0, 2, 3], [0, 0, 0, 0, 1], [1, 1, 1, 0, 0], [6, 5, 4, 3, 2]]}
    return {"model": keras.Model([a, b], outs, name="m"),
            "x": {k: np.array(v, "int32") for k, v in ids.items()},
            "y": {n: draw(rng, *(4 if d is None else d for d in o.shape))
                  for n, o in zip(names, outs)},
            "loss": {n: "mse" for n in names}}


@case
def masks_of_calls(keras, keras2, rng):
    """They are those of the outputs, too, for later layers and for losses."""
    return with_masks(keras, keras2, rng, lambda L, plain, masked, a, b, m: [
        L.LSTM(2, return_sequences=True, name="lstm")(plain(a), mask=m),
        L.GRU(2, return_sequences=True, name="gru")(masked(a), mask=m),
        L.GRU(2, return_sequences=True, name="off")(masked(a), mask=None),
        L.Bidirectional(L.GRU(2, return_sequences=True, name="g"), name="bi")(plain(a), mask=m),
        L.GRU(2, name="last")(L.TimeDistributed(L.Dense(2), name="td")(plain(a), mask=m)),
        L.BatchNormalization(name="bn")(plain(a), **({} if keras2 else {"mask": m})),
        L.GRU(2, return_sequences=True, name="from")(
            masked(a), initial_state=L.GRU(2, name="state")(masked(b)), mask=m)])


@case
def masks_of_attention(keras, keras2, rng):
    """A query_mask says nothing in Keras 3; in a list of masks null is none."""
    def build(L, plain, masked, a, b, m):
        def attend(name, x, *more, **masks):
            return L.MultiHeadAttention(1, 2, name=name)(x, *more, **masks)
        made = [L.Attention(name="both")([plain(a), plain(b)], mask=[m, m]),
                L.Attention(name="value")([masked(a), plain(b)], mask=[None, m]),
                L.AdditiveAttention(name="more")([masked(a), masked(b)], mask=[None, m])]
        if keras2:
            return made
        return made + [attend("q", plain(a), plain(b), query_mask=m),
                       attend("r", masked(a), plain(b), query_mask=m),
                       attend("v", plain(a), plain(b), value_mask=m),
                       attend("k", plain(a), plain(b), plain(b), key_mask=m)]
    return with_masks(keras, keras2, rng, build)


@case
def masks_of_inner_models(keras, keras2, rng):
    def build(L, plain, masked, a, b, m):
        def inner(name):
            return keras.Sequential([L.Input((5, 4)), L.GRU(2, return_sequences=True, name="g"),
                                     L.Dense(2, name="d")], name=name)
        def pair(name):
            i, j = L.Input((5, 4)), L.Input((5, 4))
            g = L.GRU(2, return_sequences=True, name="g")(i)
            h = L.GRU(2, return_sequences=True, name="h")(j)
            return keras.Model([i, j], L.Add(name="s")([g, h]), name=name)
        made = [inner("given")(plain(a), mask=m), inner("other")(masked(a), mask=m),
                inner("own")(masked(b)), pair("first")([masked(a), masked(b)], mask=[m, None]),
                pair("second")([masked(a), masked(b)], mask=[None, m])]
        return made + ([inner("off")(masked(b), mask=None)] if keras2 else [])
    return with_masks(keras, keras2, rng, build)


@case
def functions(keras, keras2, rng):
    def keras2_functions(L, x):
        y = x * 2.0
        return [tf.concat([x, y], -1), tf.concat([x, y], 1), tf.stack([x, y], 1),
                tf.expand_dims(x, 1) * 2.0, tf.squeeze(tf.expand_dims(x, -1), -1) + 1.0,
                tf.reshape(x, [-1, 15]), tf.transpose(x, [0, 2, 1]), tf.reduce_mean(x, [1, 2]),
                tf.reduce_sum(x, axis=-1, keepdims=True), tf.clip_by_value(x, -0.5, 0.25),
                tf.nn.leaky_relu(x, alpha=0.3), tf.nn.gelu(x), tf.nn.gelu(x, approximate=True),
                tf.cast(x, tf.float32) * 3.0, tf.maximum([0.1, 0.2, 0.3], x)]

    def keras3_functions(L, x):
        ops = keras.ops
        return [ops.cast(ops.not_equal(x, 0.5), "float32") * x, ops.cast(x, "float32") * 3.0]
    return over_steps(keras, rng, keras2_functions if keras2 else keras3_functions)

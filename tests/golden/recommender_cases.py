"""Models for make_graphs.py, as those of graph_cases.py: the layers of Keras-RS. To write them:

  /tmp/golden/bin/pip install keras-rs==0.4.0
"""
import numpy as np

from graph_cases import draw

CASES = {}


def case(build):
    def only_keras3(keras, keras2, rng):
        if keras2:
            return None
        import keras_rs
        return build(keras, keras_rs.layers, rng)
    CASES[build.__name__] = only_keras3
    return build


def model(keras, inputs, out, x, rng, scale=1.0):
    y = draw(rng, len(next(iter(x.values()))), out.shape[-1])
    return {"model": keras.Model(inputs, out, name="m"), "x": x, "y": y, "loss": "mse",
            "scale": scale}


def list_of_ids(rng, below, *shape):
    return rng.integers(0, below, shape).astype("float32")


def reduce_of(combiner, weighted):
    def build(keras, R, rng):
        i, w = keras.Input((4,), dtype="int32", name="i"), keras.Input((4,), name="w")
        layer = R.EmbedReduce(9, 3, combiner=combiner, name="e")
        e = layer(i, weights=w) if weighted else layer(i)
        x = {"i": list_of_ids(rng, 9, 5, 4)}
        x["i"][0] = 7  # one id in all places
        if weighted:
            x["w"] = draw(rng, 5, 4)
            x["w"][1] = 0  # nothing counts
            x["w"][2, 1:] = 0
        out = keras.layers.Dense(2, name="out")(e)
        return model(keras, [i, w] if weighted else [i], out, x, rng)
    build.__name__ = f"reduce_{combiner}" + ("_weighted" if weighted else "")
    case(build)


for _combiner in ("sum", "mean", "sqrtn"):
    reduce_of(_combiner, False)
    reduce_of(_combiner, True)


@case
def reduce_learned_weights(keras, R, rng):
    """Gradients flow into the weights, too, given by place."""
    L = keras.layers
    i, a = L.Input((3,), dtype="int32", name="i"), L.Input((2,), name="a")
    w = L.Dense(3, activation="sigmoid", name="w")(a)
    parts = [R.EmbedReduce(6, 2, combiner=c, name=c)(i, w) for c in ("sum", "mean", "sqrtn")]
    out = L.Dense(2, name="out")(L.Concatenate(name="cat")(parts))
    return model(keras, [i, a], out, {"i": list_of_ids(rng, 6, 4, 3), "a": draw(rng, 4, 2)}, rng)


@case
def reduce_one_id(keras, R, rng):
    """One id is not reduced: its weight counts in a sum alone."""
    L = keras.layers
    i, w = L.Input((), dtype="int32", name="i"), L.Input((), name="w")
    parts = [R.EmbedReduce(6, 2, combiner=c, name=c)(i, weights=w)
             for c in ("sum", "mean", "sqrtn")] + [R.EmbedReduce(6, 2, name="plain")(i)]
    out = L.Dense(2, name="out")(L.Concatenate(name="cat")(parts))
    return model(keras, [i, w], out, {"i": list_of_ids(rng, 6, 4), "w": draw(rng, 4)}, rng)


@case
def reduce_shared(keras, R, rng):
    L = keras.layers
    i, j = L.Input((3,), dtype="int32", name="i"), L.Input((2,), dtype="int32", name="j")
    e = R.EmbedReduce(6, 3, name="e",
                      embeddings_regularizer=keras.regularizers.L2(0.25))
    out = L.Dense(2, name="out")(L.Add(name="add")([e(i), e(j)]))
    return model(keras, [i, j], out,
                 {"i": list_of_ids(rng, 6, 4, 3), "j": list_of_ids(rng, 6, 4, 2)}, rng)


@case
def reduce_ragged(keras, R, rng):
    """Lists of varying length; ours are filled up, and say what is there."""
    import tensorflow as tf
    L = keras.layers
    lengths = np.array([3, 0, 1, 4, 2])
    there = (np.arange(4) < lengths[:, None]).astype("float32")
    i = L.Input((None,), dtype="int32", name="i", ragged=True)
    w = L.Input((None,), name="w", ragged=True)
    parts = [R.EmbedReduce(9, 2, combiner=c, name=c)(i) for c in ("sum", "mean", "sqrtn")]
    parts.append(R.EmbedReduce(9, 2, name="weighted")(i, weights=w))
    out = L.Dense(2, name="out")(L.Concatenate(name="cat")(parts))
    ids, weights = list_of_ids(rng, 9, 5, 4) * there, (0.5 + draw(rng, 5, 4) ** 2) * there
    x = {"i": tf.RaggedTensor.from_tensor(ids.astype("int32"), lengths=lengths),
         "w": tf.RaggedTensor.from_tensor(weights, lengths=lengths)}
    made = model(keras, [i, w], out, {"i": ids}, rng)
    return dict(made, x=x, inputs={"i": ids, "i/present": there, "w": weights})


def dots(diagonal, whole):
    def build(keras, R, rng):
        L = keras.layers
        ins = [L.Input((3,), name=n) for n in "abc"]
        parts = [L.Dense(4, name="d" + i.name)(i) for i in ins]
        dot = R.DotInteraction(self_interaction=diagonal, skip_gather=whole, name="dot")(parts)
        out = L.Dense(2, name="out")(dot)
        return model(keras, ins, out, {i.name: draw(rng, 4, 3) for i in ins}, rng)
    build.__name__ = "dot" + ("_self" if diagonal else "") + ("_whole" if whole else "")
    case(build)


for _diagonal in (False, True):
    dots(_diagonal, False)
    dots(_diagonal, True)


@case
def dot_of_one(keras, R, rng):
    """A feature that comes twice."""
    L = keras.layers
    a = L.Input((3,), name="a")
    d = L.Dense(4, activation="tanh", name="d")(a)
    out = L.Dense(2, name="out")(R.DotInteraction(self_interaction=True, name="dot")([d, d]))
    return model(keras, [a], out, {"a": draw(rng, 4, 3)}, rng)


def cross(name, inner=(5,), **options):
    def build(keras, R, rng):
        L = keras.layers
        a = L.Input(inner, name="a")
        x0 = L.Dense(4, name="d")(a)
        x = R.FeatureCross(name="first", **options)(x0)
        x = R.FeatureCross(name="second", **options)(x0, x)
        x = L.Flatten(name="f")(R.FeatureCross(name="third", **options)(x=x, x0=x0))
        out = L.Dense(2, name="out")(x)
        return model(keras, [a], out, {"a": draw(rng, 4, *inner)}, rng, scale=0.375)
    build.__name__ = "cross" + name
    case(build)


cross("")
cross("_low_rank", projection_dim=2)
cross("_options", projection_dim=2, diag_scale=0.5, use_bias=False, pre_activation="tanh")
cross("_relu", diag_scale=0.25, pre_activation="relu", kernel_regularizer="l2",
      bias_regularizer="l1")
cross("_softmax", pre_activation="softmax", bias_initializer="ones")
cross("_steps", inner=(3, 5), projection_dim=3, pre_activation="sigmoid")


@case
def dlrm(keras, R, rng):
    L = keras.layers
    n = L.Input((4,), name="n")
    bottom = L.Dense(3, activation="relu", name="bottom")(n)
    ids = [L.Input((), dtype="int32", name=f"c{k}") for k in range(3)]
    rows = [L.Embedding(7, 3, name=f"e{k}")(i) for k, i in enumerate(ids)]
    dot = R.DotInteraction(name="dot")([bottom] + rows)
    top = L.Dense(4, activation="relu", name="top")(L.Concatenate(name="cat")([bottom, dot]))
    x = {"n": draw(rng, 5, 4), **{i.name: list_of_ids(rng, 7, 5) for i in ids}}
    return model(keras, [n] + ids, L.Dense(1, activation="sigmoid", name="out")(top), x, rng)


@case
def dcn(keras, R, rng):
    """Numbers and lists of ids, crossed twice beside a deep part."""
    L = keras.layers
    n, i, w = L.Input((2,), name="n"), L.Input((3,), dtype="int32", name="i"), L.Input(
        (3,), name="w")
    x0 = L.Concatenate(name="cat")([n, R.EmbedReduce(8, 3, combiner="sqrtn", name="e")(
        i, weights=w)])
    x = R.FeatureCross(projection_dim=2, name="c1")(x0)
    x = R.FeatureCross(projection_dim=2, name="c2")(x0, x)
    deep = L.Dense(3, activation="relu", name="deep")(x0)
    out = L.Dense(1, name="out")(L.Concatenate(name="both")([x, deep]))
    return model(keras, [n, i, w], out, {"n": draw(rng, 5, 2), "i": list_of_ids(rng, 8, 5, 3),
                                         "w": draw(rng, 5, 3)}, rng)

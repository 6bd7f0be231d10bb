"""Models for make_graphs.py, as those of operation_cases.py: sizes that are computed of shapes (in
Keras 2, where they are tensors), sums along an axis, and constraints of variables."""
import numpy as np
import tensorflow as tf

from graph_cases import draw

CASES = {}


def case(*shape, keras2=True, keras3=True, scale=1.0):
    """A case of outputs made of (h, a): what a Dense layer gives of the input, and the input."""
    def add(build):
        def made(keras, is_keras2, rng):
            if not (keras2 if is_keras2 else keras3):
                return None
            L = keras.layers
            a = L.Input(shape, name="a")
            h = L.Dense(shape[-1], name="d")(a)
            outs = build(tf if is_keras2 else keras.ops, is_keras2, rng, h, a)
            flat = [L.Flatten(name=f"f{i}")(v) for i, v in enumerate(outs)]
            out = L.Concatenate(name="cat")(flat)
            return {"model": keras.Model(a, out, name="m"),
                    "x": {"a": draw(rng, 3, *shape) * scale},
                    "y": draw(rng, 3, out.shape[1]), "loss": "mse"}
        CASES["size_" + build.__name__] = made
        return build
    return add


@case(4, 6, keras3=False)
def reshapes(tf, keras2, rng, h, a):
    s = tf.shape(h)
    b, t, d = tf.unstack(s)
    made = [tf.reshape(h, [s[0], 24]), tf.reshape(h, (-1, s[1] * s[2])),
            tf.reshape(h, tf.stack([s[0], 12, 2])), tf.reshape(h, tf.concat([s[:1], [24]], 0)),
            tf.reshape(h, tf.concat([s[:-1], [2, 3]], axis=0)), tf.reshape(h, [b, d, t]),
            tf.reshape(h, [s[0], -1, s[2] // 2]),
            tf.reshape(h, tf.concat([tf.expand_dims(s[0], 0), [s[1] * s[2]]], 0)),
            tf.reshape(h, [s[0], tf.reduce_prod(s[1:])]), tf.ensure_shape(h, [None, 4, 6])]
    return [tf.reshape(v, [-1, 24]) * (i + 2.0) for i, v in enumerate(made)]


@case(4, 6, keras3=False)
def fillings(tf, keras2, rng, h, a):
    s = tf.shape(h)
    return [tf.concat([h, tf.zeros([s[0], 4, 1])], -1) * 2.0,
            tf.concat([tf.ones((s[0], 1, s[2])), h], 1) * 3.0,
            tf.concat([h, tf.fill([s[0], s[1], 2], 0.5)], -1) * h[:, :, :1],
            h + tf.cast(tf.range(s[2]), "float32"), h * tf.range(1.0, 7.0),
            h * tf.expand_dims(tf.cast(tf.range(0, s[1] * 2, 2), "float32"), -1)]


@case(4, 6, keras3=False)
def arguments(tf, keras2, rng, h, a):
    s = tf.shape(h)
    return [tf.broadcast_to(h[:, :1], [s[0], 4, 6]) * 2.0, tf.broadcast_to(h[:, :, :1], s) * h,
            tf.tile(h[:, :1], [1, s[1], 1]) * 3.0,
            tf.reduce_sum(h, 1) / tf.cast(s[1], "float32"),
            h / tf.sqrt(tf.cast(tf.shape(h)[-1], "float32")),
            tf.slice(h, [0, 1, 0], [s[0], 2, 6]) * 4.0, tf.slice(h, [0, 0, 2], [-1, -1, 3]) * 5.0,
            h[:, :s[1] - 1] * 6.0, h[:, s[1] // 2] * 7.0,
            tf.pad(h, [[0, 0], [0, s[1] - 2], [0, 0]]) * 8.0, tf.repeat(h, s[1], axis=1) * 9.0,
            tf.one_hot(tf.cast(a[:, 0] * 4, "int32"), s[1]) * h[:, :, :4][:, :1],
            h / tf.cast(tf.size(h[:, :1]) // tf.shape(h)[0], "float32")]


@case(4, 6, keras3=False)
def positions(tf, keras2, rng, h, a):
    import tf_keras
    embed = tf_keras.layers.Embedding(5, 6, name="positions")
    later = tf.range(start=1, limit=tf.shape(h)[1] + 1)
    return [h + embed(tf.range(tf.shape(h)[1])), h * embed(later)]


@case(4, 3, keras3=False, scale=4.0)
def sequence_masks(tf, keras2, rng, h, a):
    lengths = tf.cast(tf.abs(a[:, 0, 0]), "int32")
    mask = tf.sequence_mask(lengths, tf.shape(h)[1])
    return [h * tf.expand_dims(tf.cast(mask, "float32"), -1),
            tf.where(tf.sequence_mask(lengths, maxlen=3), h[:, 0], 0.5),
            tf.sequence_mask(lengths, 2, dtype="float32") * h[:, 1, :2]]


@case(5, 3, 2)
def cumulative_sums(ops, keras2, rng, h, a):
    if keras2:
        return [tf.cumsum(h, axis=1), tf.math.cumsum(h, axis=-1) * h,
                tf.cumsum(h, axis=2, exclusive=True), tf.cumsum(h, axis=1, reverse=True) * h,
                tf.cumsum(h, axis=1, exclusive=True, reverse=True) * a]
    return [ops.cumsum(h, axis=1), ops.cumsum(h, axis=-1) * h, ops.cumsum(h, axis=2) * a]


def constrained(name, build):
    def made(keras, keras2, rng):
        a = keras.layers.Input((6, 4), name="a")
        out = build(keras.layers, keras.constraints, a)
        return {"model": keras.Model(a, out, name="m"), "x": {"a": draw(rng, 4, 6, 4)},
                "y": draw(rng, 4, *out.shape[1:]), "loss": "mse", "scale": 2.0}
    CASES["constraint_" + name] = made


constrained("dense", lambda L, c, a: L.Dense(
    2, kernel_constraint=c.UnitNorm(), bias_constraint=c.MaxNorm(0.25), name="e")(
    L.Dense(3, kernel_constraint=c.MaxNorm(1.5), bias_constraint="non_neg", name="d")(a)))
constrained("convolution", lambda L, c, a: L.Conv1D(
    3, 2, kernel_constraint=c.MinMaxNorm(0.5, 1.0, rate=0.5, axis=[0, 1]), name="c")(a))
constrained("axes", lambda L, c, a: L.Dense(
    3, kernel_constraint=c.MaxNorm(1, axis=1), name="e")(L.Dense(
        4, kernel_constraint=c.UnitNorm(axis=[0, 1]), name="d")(a)))
constrained("recurrent", lambda L, c, a: L.LSTM(
    2, kernel_constraint=c.MaxNorm(1), recurrent_constraint=c.UnitNorm(axis=0),
    bias_constraint=c.MaxNorm(0.5), name="l")(a))
constrained("others", lambda L, c, a: L.Dense(2, name="e")(L.BatchNormalization(
    gamma_constraint=c.MaxNorm(1), beta_constraint=c.MinMaxNorm(0.5, 1), name="n")(
        L.SeparableConv1D(3, 2, depthwise_constraint=c.MaxNorm(1, axis=0),
                          pointwise_constraint=c.UnitNorm(axis=1), name="s")(a))))

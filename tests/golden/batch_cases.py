"""Models for make_graphs.py, as those of graph_cases.py: statistics of batches in layers that are
shared or wrapped, ties, and what else is seldom."""
import importlib

import numpy as np

from graph_cases import draw, one, plain, steps, tokens, CASES as _before
from graph_cases import bits, hot, ids, loss_case, unit

_known = set(_before)


def case(build):
    _before[build.__name__] = build
    return build


@case
def batch_norm_shared(keras, keras2, rng):
    """Each call moves the averages on."""
    L = keras.layers
    a, b = L.Input((4,), name="a"), L.Input((4,), name="b")
    n = L.BatchNormalization(momentum=0.75, name="n")
    d = L.Dense(4, activation="tanh", name="d")
    out = L.Dense(2, name="out")(L.Concatenate(name="cat")([n(a), n(d(b)), n(d(a))]))
    return {"model": keras.Model([a, b], out, name="m"),
            "x": {"a": draw(rng, 4, 4), "b": draw(rng, 4, 4)}, "y": draw(rng, 4, 2), "loss": "mse"}


@case
def batch_norm_momentum_ends(keras, keras2, rng):
    """The averages are the last batch's, or never move."""
    L = keras.layers
    a = L.Input((4,), name="a")
    d = L.Dense(4, activation="tanh", name="d")
    all_, none = (L.BatchNormalization(momentum=m, name=n) for m, n in ((0.0, "all"), (1.0, "no")))
    out = L.Dense(2, name="out")(L.Concatenate(name="cat")([all_(a), none(a), none(all_(d(a)))]))
    return {"model": keras.Model(a, out, name="m"), "x": {"a": draw(rng, 4, 4)},
            "y": draw(rng, 4, 2), "loss": "mse"}


@case
def batch_norm_in_shared_model(keras, keras2, rng):
    L = keras.layers
    i = L.Input((3, 2), name="i")
    inner = keras.Model(i, L.BatchNormalization(axis=1, momentum=0.5, name="n")(
        L.Dense(2, name="d")(i)), name="inner")
    a, b = L.Input((3, 2), name="a"), L.Input((3, 2), name="b")
    out = L.Subtract(name="s")([inner(a), inner(b)])
    return {"model": keras.Model([a, b], out, name="m"),
            "x": {"a": draw(rng, 4, 3, 2), "b": draw(rng, 4, 3, 2)}, "y": draw(rng, 4, 3, 2),
            "loss": "mse"}


plain("batch_norm_of_steps", lambda L: [L.Dense(3), L.TimeDistributed(L.BatchNormalization(
    momentum=0.5, name="n"), name="t"), L.Dense(2), L.TimeDistributed(L.BatchNormalization(
        scale=False, trainable=False))], 4, 2)
plain("batch_norm_of_images", lambda L: [L.TimeDistributed(L.Conv2D(2, 2)), L.TimeDistributed(
    L.BatchNormalization(name="n")), L.TimeDistributed(L.GlobalMaxPooling2D()), L.TimeDistributed(
        L.BatchNormalization(center=False))], 3, 3, 3, 2)
plain("batch_norm_of_rows", lambda L: [L.Dense(2), L.TimeDistributed(L.BatchNormalization(
    axis=1, momentum=0.5)), L.TimeDistributed(L.LSTM(2)), L.Dense(2)], 2, 3, 2)
plain("batch_norm_volume", lambda L: [L.Conv3D(2, 2), L.BatchNormalization(momentum=0.5),
    L.BatchNormalization(axis=1)], 3, 2, 3, 2)


@case
def batch_norm_of_masked_steps(keras, keras2, rng):
    L = keras.layers
    return one(keras, [L.Masking(name="mask"), L.TimeDistributed(L.BatchNormalization(
        momentum=0.5, name="n"), name="t"), L.Dense(3), L.TimeDistributed(L.BatchNormalization(
            name="o")), L.LSTM(2)], steps(rng, 3, 5, 3), draw(rng, 3, 2))


@case
def batch_norm_masked_axis(keras, keras2, rng):
    """By step, of which each has as many examples as its mask leaves."""
    L = keras.layers
    return one(keras, [L.Masking(name="mask"), L.BatchNormalization(axis=1, momentum=0.5, name="n"),
                       L.Dense(3), L.BatchNormalization(axis=1, name="o"), L.LSTM(2)],
               steps(rng, 3, 5, 3), draw(rng, 3, 2))


@case
def masks_end(keras, keras2, rng):
    """In Keras 2 at a Rescaling, a Normalization or an Identity."""
    L = keras.layers
    a = L.Input((5, 3), name="a")
    m = L.Masking(name="mask")(a)
    outs = [L.LSTM(2, name=f"l{i}")(layer(m)) for i, layer in enumerate([
        L.Rescaling(0.5, 0.25, name="r"), L.Identity(name="i"),
        L.Normalization(mean=[0.1, 0.2, 0.3], variance=[1, 2, 3], name="n")])]
    return {"model": keras.Model(a, L.Concatenate(name="cat")(outs), name="m"),
            "x": {"a": steps(rng, 3, 5, 3)}, "y": draw(rng, 3, 6), "loss": "mse"}


plain("normalization_inverse", lambda L: [L.Dense(3), L.Normalization(mean=[0.1, 0.2, 0.3],
    variance=[1, 2, 0], invert=True), L.Normalization(invert=True, axis=None, mean=0.5,
    variance=4.0), L.Dense(2)], 3)
plain("alpha_dropout", lambda L: [L.Dense(4, activation="selu"), L.AlphaDropout(0.0), L.Dense(
    2), L.Dropout(0.0, noise_shape=(None, 1))], 3)


@case
def dots_of_units(keras, keras2, rng):
    L = keras.layers
    a, b = L.Input((3, 4), name="a"), L.Input((5, 4), name="b")
    p, q = L.Dense(4, name="p")(a), L.Dense(4, name="q")(b)
    u, v = L.Flatten(name="fu")(L.Dense(2, name="u")(a)), L.Dense(6, name="v")(
        L.Flatten(name="fv")(b))
    t = L.Permute((2, 1), name="t")(q)
    outs = [L.Flatten(name="f1")(L.Dot(axes=2, normalize=True, name="d1")([p, q])),
            L.Dot(axes=1, normalize=True, name="d2")([u, v]),
            L.Flatten(name="f3")(L.Dot(axes=(2, 1), normalize=True, name="d3")([p, t])),
            L.Flatten(name="f4")(L.Dot(axes=(1, 2), normalize=True, name="d4")([
                L.Permute((2, 1), name="t4")(p), q]))]
    return {"model": keras.Model([a, b], L.Concatenate(name="cat")(outs), name="m"),
            "x": {"a": draw(rng, 3, 3, 4), "b": draw(rng, 3, 5, 4)}, "y": draw(rng, 3, 46),
            "loss": "mse"}


@case
def global_max_of_ties(keras, keras2, rng):
    """What a constraint has made zero is as large as its neighbours: each has a share."""
    L = keras.layers
    a = L.Input((4,), name="a")
    e = L.Embedding(6, 8, embeddings_constraint="non_neg", name="e")(a)
    out = L.Concatenate(name="cat")([
        L.GlobalMaxPooling1D(name="p")(e), L.Flatten(name="f")(L.GlobalMaxPooling2D(
            keepdims=True, name="s")(L.Reshape((2, 2, 8), name="r")(e)))])
    x = np.array([[1, 2, 1, 2], [3, 4, 3, 3], [5, 0, 5, 5]], dtype="float32")
    return {"model": keras.Model(a, L.Dense(2, name="out")(out), name="m"), "x": {"a": x},
            "y": draw(rng, 3, 2), "loss": "mse"}


loss_case("binary_focal", lambda k: k.losses.BinaryFocalCrossentropy(), bits, "sigmoid",
          [lambda k: "binary_accuracy"])
loss_case("binary_focal_balanced", lambda k: k.losses.BinaryFocalCrossentropy(
    apply_class_balancing=True, alpha=0.4, gamma=1.5, from_logits=True, label_smoothing=0.1), bits,
          weight=True)
loss_case("binary_focal_of_shares", lambda k: k.losses.BinaryFocalCrossentropy(gamma=3.0,
          reduction="sum"), bits, "hard_sigmoid")
loss_case("categorical_focal", lambda k: k.losses.CategoricalFocalCrossentropy(), hot, "softmax",
          [lambda k: "accuracy"])
loss_case("categorical_focal_logits", lambda k: k.losses.CategoricalFocalCrossentropy(
    alpha=0.4, gamma=1.5, from_logits=True, label_smoothing=0.1), hot, weight=True)
loss_case("categorical_focal_of_sums", lambda k: k.losses.CategoricalFocalCrossentropy(gamma=3.0),
          hot, "softplus")


# Of class indices, TensorFlow clips outputs that are no probabilities before it normalises them.
for _name, _loss, _targets, _last in [
        ("sparse_of_zeros", "SparseCategoricalCrossentropy", ids, "relu"),
        ("sparse_of_any", "SparseCategoricalCrossentropy", ids, "tanh"),
        ("sparse_of_sums", "SparseCategoricalCrossentropy", ids, "softplus"),
        ("hot_of_any", "CategoricalCrossentropy", hot, "elu"),
        ("hot_of_sums", "CategoricalCrossentropy", unit, "softplus"),
        ("binary_of_any", "BinaryCrossentropy", bits, "hard_sigmoid")]:
    def _not_probabilities(keras, keras2, rng, loss=_loss, targets=_targets, last=_last):
        L = keras.layers
        return one(keras, [L.Dense(5, activation="tanh"), L.Dense(4, activation=last),
                           L.Rescaling(2.0)], draw(rng, 6, 4), targets(rng),
                   getattr(keras.losses, loss)() if not keras2 else {
                       "SparseCategoricalCrossentropy": "sparse_categorical_crossentropy",
                       "CategoricalCrossentropy": "categorical_crossentropy",
                       "BinaryCrossentropy": "binary_crossentropy"}[loss])
    _before["loss_" + _name] = _not_probabilities
# Its gradient is softmax - targets, whatever the targets' sum.
loss_case("sums_of_targets", lambda k: k.losses.CategoricalCrossentropy(from_logits=True), unit)
loss_case("sums_of_smooth_targets", lambda k: k.losses.CategoricalCrossentropy(
    from_logits=True, label_smoothing=0.2), unit, weight=True)
loss_case("sums_of_targets_of_softmax", lambda k: "categorical_crossentropy", unit, "softmax")


@case
def focal_keras2(keras, keras2, rng):
    if not keras2:
        return None
    L = keras.layers
    a = L.Input((4,), name="a")
    h = L.Dense(5, activation="tanh", name="h")(a)
    outs = [L.Dense(3, activation="sigmoid", name="p")(h), L.Dense(3, activation="softmax",
                                                                   name="q")(h)]
    return {"model": keras.Model(a, outs, name="m"), "x": {"a": draw(rng, 6, 4)},
            "y": {"p": bits(rng)[:, :3], "q": np.eye(3, dtype="float32")[rng.integers(0, 3, 6)]},
            "loss": {"p": "binary_focal_crossentropy", "q": "categorical_focal_crossentropy"}}


@case
def steps_of_model(keras, keras2, rng):
    """A model for each step: images of a film."""
    L = keras.layers
    cnn = keras.Sequential([L.Input((6, 5, 2)), L.Conv2D(3, 3, activation="relu", padding="same"),
                            L.MaxPooling2D(), L.Conv2D(2, 2, kernel_regularizer="l2"), L.Flatten(),
                            L.Dense(4, activation="tanh")], name="cnn")
    return one(keras, [L.TimeDistributed(cnn, name="t"), L.GRU(3), L.Dense(2)],
               draw(rng, 2, 3, 6, 5, 2), draw(rng, 2, 2))


@case
def steps_of_graph(keras, keras2, rng):
    """With branches and statistics of each step's batch, for two inputs, in a model."""
    L = keras.layers
    i = L.Input((4, 4, 2), name="i")
    h = L.Conv2D(2, 3, padding="same", name="c")(i)
    if not keras2:  # which takes the steps apart or together, as it happens to know the batch
        h = L.BatchNormalization(momentum=0.5, name="n")(h)
    h = L.Add(name="add")([L.ReLU()(h), i])
    h = L.Multiply(name="gate")([h, L.Dense(2, activation="sigmoid", name="s")(
        L.GlobalAveragePooling2D(keepdims=True, name="p")(h))])
    h = L.Concatenate(name="cat")([h, i, L.Average(name="mean")([i, h, i])])
    inner = keras.Model(i, L.GlobalMaxPooling2D()(h), name="inner")
    steps_of = L.TimeDistributed(inner, name="t")
    a, b = L.Input((3, 4, 4, 2), name="a"), L.Input((3, 4, 4, 2), name="b")
    out = L.Dense(2, name="out")(L.Subtract(name="sub")([steps_of(a), steps_of(b)]))
    return {"model": keras.Model([a, b], out, name="m"),
            "x": {"a": draw(rng, 4, 3, 4, 4, 2), "b": draw(rng, 4, 3, 4, 4, 2)},
            "y": draw(rng, 4, 3, 2), "loss": "mse"}


@case
def scales_of_applications(keras, keras2, rng):
    """Layers that ConvNeXt and InceptionResNetV2 define."""
    of = keras.__name__ + ".src.applications."
    scale = importlib.import_module(of + "convnext").LayerScale
    custom = importlib.import_module(of + "inception_resnet_v2").CustomScaleLayer
    a = keras.layers.Input((3, 4), name="a")
    h = scale(0.5, 5, name="s")(keras.layers.Dense(5, name="d")(a))
    e = keras.layers.Dense(5, name="e")(a)
    out = keras.layers.Flatten(name="f")(custom(0.17, name="c")([h, e]))
    return {"model": keras.Model(a, out, name="m"), "x": {"a": draw(rng, 3, 3, 4)},
            "y": draw(rng, 3, 15), "loss": "mse"}


plain("rnn_of_cells", lambda L: [L.RNN(L.LSTMCell(3, name="mine"), return_sequences=True), L.RNN(
    L.GRUCell(2, recurrent_regularizer="l2"), return_sequences=True, go_backwards=True), L.RNN([
        L.GRUCell(2), L.SimpleRNNCell(3)])], 4, 3)


@case
def rnn_of_cells_masked(keras, keras2, rng):
    L = keras.layers
    return one(keras, [L.Masking(name="mask"), L.RNN([L.LSTMCell(3), L.SimpleRNNCell(2)],
                                                     return_sequences=True), L.RNN(L.GRUCell(2))],
               steps(rng, 3, 5, 3), draw(rng, 3, 2))


CASES = {name: _before.pop(name) for name in list(_before) if name not in _known}

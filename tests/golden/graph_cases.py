"""The models of make_graphs.py. Each takes (keras, whether it is Keras 2, a random generator) and
gives model, inputs, targets and what compile() is told, or None where this Keras cannot."""
import numpy as np

CASES = {}


def case(build):
    CASES[build.__name__] = build
    return build


def draw(rng, *shape):
    return (np.round(rng.uniform(-1, 1, shape) * 256) / 256).astype("float32")


def one(keras, layers, x, y, loss="mean_squared_error", **more):
    """A Sequential of these layers."""
    model = keras.Sequential([keras.layers.Input(x.shape[1:], name="in")] + layers, name="m")
    return {"model": model, "x": x, "y": y, "loss": loss, **more}


def plain(name, layers, *shape, out=None, **more):
    """A case of layers of one input, against random targets like its output."""
    def build(keras, keras2, rng):
        made = layers(keras.layers) if layers.__code__.co_argcount == 1 else layers(
            keras.layers, keras)
        x = draw(rng, 3, *shape)
        spec = one(keras, made, x, None, **more)
        spec["y"] = draw(rng, *(3 if d is None else d for d in spec["model"].output_shape))
        return spec
    CASES[name] = build


@case
def two_inputs_two_outputs(keras, keras2, rng):
    L = keras.layers
    a, b = L.Input((4,), name="a"), L.Input((3,), name="b")
    h = L.Concatenate(name="join")([a, L.Dense(2, activation="relu", name="db")(b)])
    main = L.Dense(3, activation="softmax", name="main")(h)
    aux = L.Dense(1, name="aux")(h)
    return {"model": keras.Model([a, b], [main, aux], name="m"),
            "x": {"a": draw(rng, 5, 4), "b": draw(rng, 5, 3)},
            "y": {"main": rng.integers(0, 3, (5,)).astype("float32"), "aux": draw(rng, 5, 1)},
            "loss": {"main": "sparse_categorical_crossentropy", "aux": "mse"},
            "loss_weights": {"main": 1.0, "aux": 0.5},
            "metrics": {"main": ["accuracy"], "aux": ["mae"]}}


@case
def output_without_weight(keras, keras2, rng):
    """One whose loss is shown and counts nothing."""
    L = keras.layers
    a = L.Input((4,), name="a")
    h = L.Dense(3, activation="tanh", name="h")(a)
    main, aux = L.Dense(2, name="main")(h), L.Dense(1, name="aux")(h)
    return {"model": keras.Model(a, [main, aux], name="m"), "x": {"a": draw(rng, 5, 4)},
            "y": {"main": draw(rng, 5, 2), "aux": draw(rng, 5, 1)},
            "loss": {"main": "mse", "aux": "mae"}, "loss_weights": {"main": 2.0, "aux": 0.0}}


@case
def shared_layer(keras, keras2, rng):
    L = keras.layers
    a, b = L.Input((4,), name="a"), L.Input((4,), name="b")
    d = L.Dense(3, activation="tanh", name="d")
    p, q = d(a), d(b)
    out = L.Dense(1, name="out")(L.Subtract(name="sub")([p, q]))
    return {"model": keras.Model([a, b], out, name="m"),
            "x": {"a": draw(rng, 4, 4), "b": draw(rng, 4, 4)}, "y": draw(rng, 4, 1),
            "loss": "mse", "metrics": ["mae"]}


@case
def nested_models(keras, keras2, rng):
    L = keras.layers
    i = L.Input((4,), name="i")
    h = L.Dense(3, activation="relu", name="h")(i)
    inner = keras.Model(i, [h, L.Dense(2, name="g")(h)], name="inner")
    seq = keras.Sequential([L.Input((3,)), L.Dense(2, name="s", activation="sigmoid")], name="seq")
    a, b = L.Input((4,), name="a"), L.Input((4,), name="b")
    p, q = inner(a)
    r, s = inner(b)
    out = L.Add(name="sum")([q, s, seq(p), seq(r)])
    return {"model": keras.Model([a, b], out, name="m"),
            "x": {"a": draw(rng, 4, 4), "b": draw(rng, 4, 4)}, "y": draw(rng, 4, 2), "loss": "mse"}


@case
def operators(keras, keras2, rng):
    L = keras.layers
    a = L.Input((4,), name="a")
    h = L.Dense(4, name="d")(a)
    g = 2.0 * h - a / 2 + h * a
    s = h[:, 1:3] + (1.0 - a[:, ::2])
    out = L.Concatenate(name="cat")([g, s, -h])
    return {"model": keras.Model(a, out, name="m"), "x": {"a": draw(rng, 4, 4)},
            "y": draw(rng, 4, 10), "loss": "mse"}


@case
def operations(keras, keras2, rng):
    if keras2:
        return None
    from keras import ops
    L = keras.layers
    a = L.Input((3, 4), name="a")
    h = L.Dense(4, name="d")(a)
    outs = [ops.exp(h), h ** 2, ops.mean(h, axis=1, keepdims=True) + h, ops.relu(h),
            ops.softmax(h), ops.matmul(h, ops.transpose(h, (0, 2, 1)))[:, :, :1] * h,
            ops.maximum(h, 0.25), ops.clip(h, -0.5, 0.5), abs(h), 1 / (2.5 + ops.sigmoid(h)),
            ops.sum(h, axis=-1)[:, :, None] * h, h[:, ::-1], ops.reshape(h, (-1, 3, 4)),
            ops.sqrt(ops.square(h) + 1.0)]
    out = L.Flatten(name="f")(ops.concatenate(outs, axis=1))
    return {"model": keras.Model(a, out, name="m"), "x": {"a": draw(rng, 3, 3, 4)},
            "y": draw(rng, 3, out.shape[1]), "loss": "mse"}


@case
def merges(keras, keras2, rng):
    L = keras.layers
    a, b = L.Input((3, 4), name="a"), L.Input((3, 1), name="b")
    p, q = L.Dense(4, name="p")(a), L.Dense(4, name="q")(b)
    r = L.Dense(1, name="r")(a)
    outs = [L.Add()([p, q, a]), L.Multiply()([p, q, r]), L.Average()([p, q, a]),
            L.Maximum()([p, q, a]), L.Minimum()([p, q]), L.Subtract()([p, r])]
    out = L.Flatten(name="f")(L.Concatenate(axis=1, name="cat")(outs))
    return {"model": keras.Model([a, b], out, name="m"),
            "x": {"a": draw(rng, 3, 3, 4), "b": draw(rng, 3, 3, 1)}, "y": draw(rng, 3, 72),
            "loss": "mse"}


@case
def dots(keras, keras2, rng):
    L = keras.layers
    a, b = L.Input((3, 4), name="a"), L.Input((5, 4), name="b")
    p, q = L.Dense(4, name="p")(a), L.Dense(4, name="q")(b)
    u, v = L.Flatten()(L.Dense(2, name="u")(a)), L.Dense(6, name="v")(L.Flatten()(b))
    outs = [L.Flatten()(L.Dot(axes=2, name="d1")([p, q])), L.Dot(axes=1, name="d2")([u, v]),
            L.Flatten()(L.Dot(axes=(1, 2), name="d3")([p, L.Permute((2, 1), name="t")(
                L.Dense(3, name="w")(b))])) if False else L.Flatten()(q)]
    return {"model": keras.Model([a, b], L.Concatenate(name="cat")(outs), name="m"),
            "x": {"a": draw(rng, 3, 3, 4), "b": draw(rng, 3, 5, 4)}, "y": draw(rng, 3, 36),
            "loss": "mse"}


@case
def embeddings_dot(keras, keras2, rng):
    L = keras.layers
    u, i = L.Input((1,), name="user", dtype="int32"), L.Input((1,), name="item", dtype="int32")
    eu = L.Flatten(name="fu")(L.Embedding(6, 3, name="eu", embeddings_regularizer="l2")(u))
    ei = L.Flatten(name="fi")(L.Embedding(7, 3, name="ei")(i))
    out = L.Add(name="s")([L.Dot(axes=1, name="dot")([eu, ei]),
                           L.Flatten(name="fb")(L.Embedding(6, 1, name="bu")(u))])
    return {"model": keras.Model([u, i], out, name="m"),
            "x": {"user": rng.integers(0, 6, (5, 1)).astype("float32"),
                  "item": rng.integers(0, 7, (5, 1)).astype("float32")},
            "y": draw(rng, 5, 1), "loss": "mse",
            "metrics": None if keras2 else [keras.metrics.RootMeanSquaredError()]}


@case
def dict_model(keras, keras2, rng):
    L = keras.layers
    a, b = L.Input((3,), name="a"), L.Input((2,), name="b")
    h = L.Concatenate(name="c")([a, b])
    outs = {"x": L.Dense(2, name="dx")(h), "y": L.Dense(1, activation="sigmoid", name="dy")(h)}
    if keras2:
        return None
    return {"model": keras.Model({"a": a, "b": b}, outs, name="m"),
            "x": {"a": draw(rng, 4, 3), "b": draw(rng, 4, 2)},
            "y": {"x": draw(rng, 4, 2), "y": rng.integers(0, 2, (4, 1)).astype("float32")},
            "loss": {"x": "mse", "y": "binary_crossentropy"}}


@case
def output_feeds_output(keras, keras2, rng):
    L = keras.layers
    a = L.Input((3,), name="a")
    p = L.Dense(3, activation="softmax", name="p")(a)
    q = L.Dense(2, name="q")(p)
    return {"model": keras.Model(a, [p, q], name="m"), "x": {"a": draw(rng, 4, 3)},
            "y": {"p": np.eye(3, dtype="float32")[rng.integers(0, 3, 4)], "q": draw(rng, 4, 2)},
            "loss": {"p": "categorical_crossentropy", "q": "mae"}}


# Layers one by one.
plain("conv1d", lambda L: [L.Conv1D(4, 3, padding="same", activation="relu"), L.Conv1D(3, 2,
      strides=2)], 7, 2)
plain("conv1d_causal", lambda L: [L.Conv1D(3, 3, padding="causal", dilation_rate=2),
                                  L.Conv1D(2, 2, padding="causal", strides=2)], 8, 2)
plain("depthwise", lambda L: [L.DepthwiseConv2D(3, depth_multiplier=2, padding="same",
      activation="relu"), L.DepthwiseConv2D(2, strides=2)], 6, 5, 3)
plain("separable", lambda L: [L.SeparableConv2D(4, (3, 2), depth_multiplier=2, padding="same",
      activation="tanh"), L.SeparableConv2D(2, 2, activation="relu", use_bias=False)], 6, 5, 3)
plain("separable1d", lambda L: [L.SeparableConv1D(3, 3, activation="relu")], 7, 2)
plain("pool1d", lambda L: [L.Conv1D(3, 1), L.MaxPooling1D(3, strides=2, padding="same"),
      L.Conv1D(2, 1), L.AveragePooling1D(2)], 9, 2)
plain("global_pool", lambda L: [L.Conv2D(3, 2), L.GlobalAveragePooling2D(), L.Dense(2)], 5, 4, 2)
plain("global_max", lambda L: [L.Conv2D(3, 2), L.GlobalMaxPooling2D(keepdims=True)], 5, 4, 2)
plain("global_pool1d", lambda L: [L.Conv1D(3, 2), L.GlobalAveragePooling1D(), L.Dense(2)], 5, 4)
plain("global_max1d", lambda L: [L.Conv1D(3, 2), L.GlobalMaxPooling1D(), L.Dense(2)], 5, 4)
plain("frames", lambda L: [L.ZeroPadding2D(((1, 0), (2, 3))), L.Conv2D(2, 2), L.Cropping2D(
      ((1, 0), (0, 2))), L.ZeroPadding2D(1)], 4, 3, 2)
plain("frames1d", lambda L: [L.ZeroPadding1D((1, 2)), L.Conv1D(2, 2), L.Cropping1D(1)], 5, 3)
plain("upsampling", lambda L: [L.Conv2D(2, 2), L.UpSampling2D((2, 3)), L.Conv2D(1, 2)], 4, 3, 2)
plain("permute_repeat", lambda L: [L.Dense(4), L.Permute((2, 1)), L.Flatten(), L.RepeatVector(3),
                                   L.Dense(2)], 3, 2)
plain("batch_norm", lambda L: [L.Dense(4), L.BatchNormalization(momentum=0.75), L.ReLU(),
                               L.Dense(2)], 5)
plain("batch_norm_conv", lambda L: [L.BatchNormalization(scale=False), L.Conv2D(3, 2),
      L.BatchNormalization(center=False, epsilon=0.01), L.Flatten(), L.Dense(2)], 4, 3, 2)
plain("layer_norm", lambda L: [L.Dense(4), L.LayerNormalization(), L.Dense(3),
                               L.LayerNormalization(center=False, epsilon=0.1)], 3, 5)
plain("layer_norm_axes", lambda L: [L.Dense(4), L.LayerNormalization(axis=[1, 2])], 3, 5)
plain("normalization", lambda L: [L.Normalization(mean=[0.1, 0.2, 0.3], variance=[1, 2, 3]),
                                  L.Dense(2)], 3)
plain("regularized", lambda L: [L.Dense(3, kernel_regularizer="l2", bias_regularizer="l1"),
                                L.Dense(2, kernel_regularizer="l2")], 4)
plain("activation_layers", lambda L: [L.Dense(6), L.LeakyReLU(), L.Dense(5), L.ELU(0.5),
      L.Dense(4), L.ReLU(max_value=0.5, negative_slope=0.1, threshold=0.1), L.Dense(3),
      L.Softmax()], 4)
for _name in ["celu", "hard_silu", "hard_tanh", "hard_shrink", "soft_shrink", "tanh_shrink",
              "log_sigmoid", "mish", "squareplus", "sparse_plus", "sparse_sigmoid", "threshold",
              "relu6", "log_softmax", "sparsemax"]:
    def _activation(keras, keras2, rng, name=_name):
        if keras2 or name == "threshold":
            return None
        L = keras.layers
        return one(keras, [L.Dense(6, activation=name), L.Dense(2)], draw(rng, 3, 4) * 4,
                   draw(rng, 3, 2))
    CASES["more_" + _name] = _activation


# Losses.
def loss_case(name, make, targets, last="linear", metrics=(), weight=False, weighted=(), **more):
    def build(keras, keras2, rng):
        if keras2:
            return None
        L = keras.layers
        x = draw(rng, 6, 4)
        return one(keras, [L.Dense(5, activation="tanh"), L.Dense(4, activation=last)], x,
                   targets(rng), make(keras), metrics=[m(keras) for m in metrics],
                   weighted_metrics=[m(keras) for m in weighted] or None,
                   **({"weight": np.abs(draw(rng, 6))} if weight else {}), **more)
    CASES["loss_" + name] = build


def unit(rng):
    return np.abs(draw(rng, 6, 4))


def hot(rng):
    return np.eye(4, dtype="float32")[rng.integers(0, 4, 6)]


def ids(rng):
    return rng.integers(0, 4, (6,)).astype("float32")


def bits(rng):
    return rng.integers(0, 2, (6, 4)).astype("float32")


def any_of(rng):
    return draw(rng, 6, 4)


loss_case("msle", lambda k: k.losses.MeanSquaredLogarithmicError(), unit, "sigmoid",
          [lambda k: k.metrics.MeanSquaredLogarithmicError()])
loss_case("mape", lambda k: k.losses.MeanAbsolutePercentageError(), any_of)
loss_case("huber", lambda k: k.losses.Huber(), any_of, metrics=[
    lambda k: k.metrics.RootMeanSquaredError(), lambda k: k.metrics.R2Score(),
    lambda k: k.metrics.CosineSimilarity()])
loss_case("log_cosh", lambda k: "log_cosh", any_of)
loss_case("hinge", lambda k: "hinge", bits)
loss_case("squared_hinge", lambda k: "squared_hinge", any_of)
loss_case("categorical_hinge", lambda k: "categorical_hinge", hot)
loss_case("kl", lambda k: "kl_divergence", lambda r: unit(r) / 2, "softmax")
loss_case("poisson", lambda k: "poisson", unit, "exponential")
loss_case("cosine", lambda k: "cosine_similarity", any_of)
loss_case("smooth_categorical", lambda k: k.losses.CategoricalCrossentropy(label_smoothing=0.2),
          hot, "softmax", [lambda k: k.metrics.F1Score(average="macro"),
                           lambda k: k.metrics.F1Score(average="weighted", threshold=0.3,
                                                       name="f1w"),
                           lambda k: k.metrics.TopKCategoricalAccuracy(k=2)])
loss_case("smooth_binary", lambda k: k.losses.BinaryCrossentropy(label_smoothing=0.1,
          from_logits=True), bits)
loss_case("binary_metrics", lambda k: "binary_crossentropy", bits, "sigmoid", [
    lambda k: k.metrics.AUC(), lambda k: k.metrics.AUC(curve="PR", name="pr"),
    lambda k: k.metrics.Precision(), lambda k: k.metrics.Recall(thresholds=0.4),
    lambda k: k.metrics.BinaryAccuracy(threshold=0.6)])
loss_case("ignore_class", lambda k: k.losses.SparseCategoricalCrossentropy(ignore_class=2), ids,
          "softmax")
loss_case("weighted", lambda k: k.losses.SparseCategoricalCrossentropy(from_logits=True), ids,
          "linear", [lambda k: k.metrics.SparseTopKCategoricalAccuracy(k=2)], weight=True)
loss_case("weighted_mse", lambda k: "mse", any_of, weight=True)
loss_case("mae", lambda k: "mae", any_of, metrics=[
    lambda k: k.metrics.MeanAbsoluteError(), lambda k: k.metrics.MeanSquaredError(),
    lambda k: k.metrics.LogCoshError(), lambda k: k.metrics.MeanAbsolutePercentageError()])
loss_case("huber_delta", lambda k: k.losses.Huber(delta=0.3), any_of,
          loss_name={"class_name": "Huber", "config": {"delta": 0.3}})
loss_case("sum", lambda k: k.losses.MeanSquaredError(reduction="sum"), any_of)
loss_case("sum_weighted", lambda k: k.losses.CategoricalCrossentropy(
    from_logits=True, reduction="sum"), hot, weight=True)
loss_case("as_metrics", lambda k: "kl_divergence", lambda r: unit(r) / 2, "softmax", [
    lambda k: k.metrics.KLDivergence(), lambda k: k.metrics.Poisson(),
    lambda k: k.metrics.CategoricalCrossentropy(label_smoothing=0.1)])
loss_case("margins", lambda k: "categorical_hinge", hot, "tanh", [
    lambda k: k.metrics.Hinge(), lambda k: k.metrics.SquaredHinge(),
    lambda k: k.metrics.CategoricalHinge(), lambda k: k.metrics.CategoricalAccuracy(),
    lambda k: k.metrics.F1Score(average="micro")])
loss_case("weighted_binary", lambda k: "binary_crossentropy", bits, "sigmoid", weight=True,
          metrics=[lambda k: k.metrics.BinaryCrossentropy(label_smoothing=0.2)])
loss_case("class_weight", lambda k: "sparse_categorical_crossentropy", ids, "softmax",
          [lambda k: "accuracy"], class_weight={0: 2.0, 2: 0.25, 3: 0.0})
loss_case("class_weight_hot", lambda k: k.losses.CategoricalCrossentropy(from_logits=True), hot,
          class_weight={1: 3.0, 2: 0.5})


def perplexity(keras, **config):
    """As keras_hub.metrics.Perplexity, which Keras itself has not."""
    class Perplexity(keras.metrics.SparseCategoricalCrossentropy):
        def result(self):
            return keras.ops.exp(super().result())
    return Perplexity(name="perplexity", **config)


loss_case("perplexity", lambda k: k.losses.SparseCategoricalCrossentropy(from_logits=True), ids,
          metrics=[lambda k: perplexity(k, from_logits=True)])
loss_case("perplexity_of_shares", lambda k: "sparse_categorical_crossentropy", ids, "softmax",
          [perplexity])


@case
def class_weight_binary(keras, keras2, rng):
    if keras2:
        return None
    L = keras.layers
    return one(keras, [L.Dense(5, activation="tanh"), L.Dense(1, activation="sigmoid")],
               draw(rng, 6, 4), rng.integers(0, 2, (6, 1)).astype("float32"),
               "binary_crossentropy", metrics=["accuracy"], class_weight={0: 0.5, 1: 4.0})


@case
def weights_of_steps(keras, keras2, rng):
    """A weight for each step of each example, beside a mask, in loss and metrics."""
    if keras2:
        return None
    L = keras.layers
    return one(keras, [L.Embedding(6, 3, mask_zero=True), L.LSTM(4, return_sequences=True),
                       L.Dense(4)], tokens(rng), rng.integers(0, 4, (3, 5)).astype("float32"),
               keras.losses.SparseCategoricalCrossentropy(from_logits=True),
               metrics=[perplexity(keras, from_logits=True)], weight=np.abs(draw(rng, 3, 5)))


def steps(rng, *shape):
    """Some steps of zeros, which Masking leaves out."""
    x = draw(rng, *shape)
    x[0, 3:] = 0
    x[2, :2] = 0
    return x


def tokens(rng):
    x = rng.integers(1, 6, (3, 5)).astype("float32")
    x[1, 2:] = 0
    x[2, 4:] = 0
    return x


@case
def mask_pooled(keras, keras2, rng):
    L = keras.layers
    return one(keras, [L.Masking(name="mask"), L.Dense(4, activation="tanh", name="d"),
                       L.GlobalAveragePooling1D(name="gap"), L.Dense(2, name="out")],
               steps(rng, 3, 5, 3), draw(rng, 3, 2))


@case
def mask_loss(keras, keras2, rng):
    L = keras.layers
    return one(keras, [L.Masking(name="mask"), L.Dropout(0.0, name="drop"),
                       L.Dense(2, name="out")], steps(rng, 3, 5, 3), draw(rng, 3, 5, 2),
               metrics=["mae"])


@case
def mask_value(keras, keras2, rng):
    L = keras.layers
    x = draw(rng, 3, 4, 2)
    x[1, 2:] = 0.5
    return one(keras, [L.Masking(mask_value=0.5, name="mask"), L.Activation("tanh", name="a"),
                       L.GlobalAveragePooling1D(name="gap")], x, draw(rng, 3, 2))


@case
def mask_tokens(keras, keras2, rng):
    L = keras.layers
    return one(keras, [L.Embedding(6, 4, mask_zero=True, name="e"),
                       L.GlobalAveragePooling1D(name="gap"), L.Dense(2, name="out")],
               tokens(rng), draw(rng, 3, 2))


@case
def mask_tokens_loss(keras, keras2, rng):
    L = keras.layers
    return one(keras, [L.Embedding(6, 4, mask_zero=True, name="e"),
                       L.Dense(3, activation="softmax", name="out")],
               tokens(rng), rng.integers(0, 3, (3, 5)).astype("float32"),
               loss="sparse_categorical_crossentropy", metrics=["accuracy"])


@case
def mask_joined(keras, keras2, rng):
    if not keras2:
        return None  # writes how the masks are computed into the model, as operations
    L = keras.layers
    a, b = L.Input((5, 3), name="a"), L.Input((5, 3), name="b")
    h = L.Add(name="add")([L.Masking(name="ma")(a), L.Masking(name="mb")(b)])
    out = L.GlobalAveragePooling1D(name="gap")(L.Dense(2, name="d")(h))
    return {"model": keras.Model([a, b], out, name="m"),
            "x": {"a": steps(rng, 3, 5, 3), "b": steps(rng, 3, 5, 3)}, "y": draw(rng, 3, 2),
            "loss": "mse"}


plain("conv_transpose", lambda L: [L.Conv2DTranspose(2, (3, 2), strides=(2, 3)), L.Conv2DTranspose(
    2, 3, strides=2, padding="same", activation="relu", use_bias=False), L.Conv2D(1, 3, strides=3)],
    2, 2, 2)
plain("conv_transpose_more", lambda L: [L.Conv2DTranspose(2, 3, strides=2, padding="same",
    output_padding=1), L.Conv2DTranspose(2, 2, dilation_rate=2, padding="same",
    activation="softmax"), L.Conv2DTranspose(1, 2, strides=3), L.Conv2D(1, 4, strides=4)], 2, 1, 2)
plain("conv1d_transpose", lambda L: [L.Conv1DTranspose(3, 3, strides=2, padding="same"),
    L.Conv1DTranspose(2, 2, strides=3, output_padding=0, activation="tanh")], 2, 2)
plain("conv3d", lambda L: [L.Conv3D(2, (2, 3, 2), padding="same", activation="relu"),
    L.Conv3D(2, 2, strides=(2, 1, 2), use_bias=False)], 2, 3, 2, 2)
plain("conv3d_dilated", lambda L: [L.Conv3D(2, (3, 1, 2), dilation_rate=(2, 1, 1), padding="same"),
    L.ZeroPadding3D(((1, 0), (0, 1), (0, 0))), L.Cropping3D((1, 0, 0)), L.UpSampling3D((1, 2, 1)),
    L.GlobalAveragePooling3D(keepdims=True)], 4, 2, 3, 2)
plain("pool3d", lambda L: [L.Conv3D(2, 1), L.MaxPooling3D((2, 2, 1), strides=(2, 1, 1),
    padding="same"), L.AveragePooling3D(2, strides=1, padding="same"), L.GlobalMaxPooling3D()],
    4, 3, 3, 1)
plain("channels_first", lambda L: [L.Conv2D(3, (3, 2), padding="same", data_format="channels_first",
    activation="relu"), L.BatchNormalization(axis=1), L.Cropping2D(1, data_format="channels_first"
    ), L.ZeroPadding2D((1, 0), data_format="channels_first"),
    L.Flatten(data_format="channels_first"), L.Dense(2)], 2, 4, 5)
plain("channels_first_more", lambda L: [L.Conv2DTranspose(2, 2, data_format="channels_first"),
    L.UpSampling2D((1, 2), data_format="channels_first"), L.SeparableConv2D(3, 2, strides=2,
    data_format="channels_first"), L.GlobalAveragePooling2D(data_format="channels_first",
    keepdims=True)], 2, 3, 3)
plain("channels_first_1d", lambda L: [L.Conv1D(3, 2, data_format="channels_first",
    activation="softmax"), L.AveragePooling1D(2, data_format="channels_first"),
    L.GlobalMaxPooling1D(data_format="channels_first")], 2, 7)
plain("norm_axes", lambda L: [L.Dense(4), L.LayerNormalization(axis=1), L.BatchNormalization(
    axis=1), L.UnitNormalization(axis=1), L.Softmax(axis=1), L.LayerNormalization(axis=[1, 3])],
    3, 2, 3)
plain("norm_axes_more", lambda L: [L.Dense(4), L.GroupNormalization(2, axis=1),
    L.LayerNormalization(axis=[1, 2], scale=False), L.BatchNormalization(axis=2),
    L.Normalization(axis=1, mean=[0.1, 0.2], variance=[1, 2])], 2, 3, 3)
plain("einsum", lambda L: [L.EinsumDense("abc,cde->abde", output_shape=(None, 2, 3),
    bias_axes="de"), L.EinsumDense("abde,dec->abc", output_shape=(None, 4), bias_axes="c",
    activation="tanh"), L.EinsumDense("...x,xy->...y", output_shape=3, bias_axes="y")], 3, 4)
plain("einsum_positions", lambda L: [L.EinsumDense("abc,bcd->abd", output_shape=(3, 3),
    bias_axes="bd"), L.EinsumDense("abc,bd->adc", output_shape=(2, 3), bias_axes="d"),
    L.EinsumDense("abc,bc->abc", output_shape=(2, 3)), L.EinsumDense("ab...,bc->ac...",
    output_shape=4, bias_axes="c"), L.EinsumDense("abc,dc->abd", output_shape=(4, 2))], 3, 2)
plain("non_neg", lambda L: [L.Dense(4, kernel_constraint="non_neg", activation="tanh"), L.Dense(2,
    bias_constraint="non_neg"), L.BatchNormalization(gamma_constraint="non_neg")], 3)
plain("non_neg_sequence", lambda L: [L.Bidirectional(L.LSTM(1, recurrent_constraint="non_neg",
    return_sequences=True)), L.SeparableConv1D(2, 2, depthwise_constraint="non_neg")], 3, 2)
plain("upsampling_bilinear", lambda L: [L.Conv2D(2, 1), L.UpSampling2D((2, 3),
    interpolation="bilinear"), L.Conv2D(2, 2, strides=2), L.UpSampling2D((1, 4),
    interpolation="bilinear"), L.UpSampling2D(3, interpolation="bilinear"), L.Conv2D(1, 3,
    strides=2)], 3, 2, 2)
plain("upsampling_bilinear_one", lambda L: [L.Permute((3, 1, 2)), L.UpSampling2D((5, 2),
    interpolation="bilinear", data_format="channels_first"), L.Permute((2, 3, 1)),
    L.Dense(2)], 1, 4, 2)
plain("depthwise_regular", lambda L: [L.DepthwiseConv2D(2, depth_multiplier=2,
    depthwise_regularizer="l2", bias_regularizer="l1"), L.DepthwiseConv2D(
    1, depthwise_constraint="non_neg"), L.SeparableConv2D(2, 2, depthwise_regularizer="l1",
    pointwise_regularizer="l2")], 4, 3, 2)
plain("frozen_regular", lambda L: [L.Dense(3, kernel_regularizer="l2"), L.Dense(4, trainable=False,
    kernel_regularizer="l1", bias_regularizer="l2", activity_regularizer="l2"),
    L.BatchNormalization(trainable=False, gamma_regularizer="l2"), L.Dense(2)], 3)

"""Models over sequences for make_graphs.py, as those of graph_cases.py: recurrent layers, attention
and what goes with them."""
import numpy as np

from graph_cases import draw, one, steps, tokens

CASES = {}


def case(build):
    CASES[build.__name__] = build
    return build


def rnn(name, layers, masked=False, out=None):
    """Layers over (5, 3), with some steps masked or not."""
    def build(keras, keras2, rng):
        x = steps(rng, 3, 5, 3) if masked else draw(rng, 3, 4, 3)
        mask = [keras.layers.Masking(name="mask")] if masked else []
        spec = one(keras, mask + layers(keras.layers), x, None)
        spec["y"] = draw(rng, 3, *spec["model"].output_shape[1:])
        return spec
    CASES[name] = build


rnn("lstm", lambda L: [L.LSTM(3), L.Dense(2)])
rnn("lstm_sequences", lambda L: [L.LSTM(3, return_sequences=True), L.LSTM(2)])
rnn("lstm_backwards", lambda L: [L.LSTM(2, return_sequences=True, go_backwards=True), L.LSTM(
    2, use_bias=False, kernel_regularizer="l2", recurrent_regularizer="l1", bias_regularizer="l2")])
rnn("lstm_activations", lambda L: [L.LSTM(3, activation="elu", recurrent_activation="hard_sigmoid",
    return_sequences=True), L.LSTM(2, activation="softsign", recurrent_activation="softmax")])
rnn("lstm_masked", lambda L: [L.LSTM(3, return_sequences=True), L.LSTM(2)], masked=True)
rnn("lstm_masked_backwards", lambda L: [L.LSTM(2, return_sequences=True, go_backwards=True,
    zero_output_for_mask=True), L.LSTM(2, zero_output_for_mask=True)], masked=True)
rnn("lstm_masked_loss", lambda L: [L.LSTM(2, return_sequences=True)], masked=True)
rnn("gru", lambda L: [L.GRU(3, return_sequences=True), L.GRU(2)])
rnn("gru_masked", lambda L: [L.GRU(3, return_sequences=True), L.GRU(2, use_bias=False)],
    masked=True)
rnn("gru_before", lambda L: [L.GRU(3, return_sequences=True, reset_after=False), L.GRU(
    2, reset_after=False, use_bias=False, activation="relu", go_backwards=True)])
rnn("gru_before_masked", lambda L: [L.GRU(3, return_sequences=True, reset_after=False),
    L.GRU(2, reset_after=False, recurrent_activation="tanh")], masked=True)
rnn("gru_activations", lambda L: [L.GRU(3, activation="gelu", recurrent_activation="softplus")])
rnn("simple_rnn", lambda L: [L.SimpleRNN(3, return_sequences=True), L.SimpleRNN(
    2, activation="relu", go_backwards=True)])
rnn("simple_rnn_masked", lambda L: [L.SimpleRNN(3, return_sequences=True), L.SimpleRNN(2)],
    masked=True)


@case
def lstm_tokens(keras, keras2, rng):
    L = keras.layers
    return one(keras, [L.Embedding(6, 3, mask_zero=True, name="e"), L.LSTM(3, name="l"),
                       L.Dense(1, activation="sigmoid", name="out")], tokens(rng),
               rng.integers(0, 2, (3, 1)).astype("float32"), loss="binary_crossentropy")


@case
def encoder_decoder(keras, keras2, rng):
    """States out of one and into the other, and outputs beside the first."""
    L = keras.layers
    a, b = L.Input((4, 2), name="a"), L.Input((3, 2), name="b")
    _, h, c = L.LSTM(3, return_state=True, name="enc")(a)
    y, s, t = L.LSTM(3, return_state=True, return_sequences=True, name="dec")(
        b, initial_state=[h, c])
    g, u = L.GRU(3, return_state=True, name="g")(y, initial_state=s)
    out = L.Concatenate(name="cat")([L.Dense(2, name="d")(g), t, u])
    return {"model": keras.Model([a, b], [out, y], name="m"),
            "x": {"a": draw(rng, 3, 4, 2), "b": draw(rng, 3, 3, 2)},
            "y": [draw(rng, 3, 8), draw(rng, 3, 3, 3)], "loss": "mse"}


def attend(name, call, queries=4, keys=5, width=6, key_width=None, masked=False, **config):
    """Queries that attend to other steps; `call(keras, q, v, k)` gives what the layer is told."""
    def build(keras, keras2, rng):
        L = keras.layers
        a, b = L.Input((queries, 5), name="a"), L.Input((keys, 3), name="b")
        q, v = L.Dense(width, name="q")(a), L.Dense(4, name="v")(b)
        x = {"a": draw(rng, 3, queries, 5), "b": draw(rng, 3, keys, 3)}
        if masked:
            q, v = L.Masking(name="mq")(q), L.Masking(name="mv")(b)
            x["b"][1, 2:] = 0
            x["b"][2, :1] = 0
        k = L.Dense(key_width, name="k")(b) if key_width else None
        more = call(keras, L, q, v)
        layer = L.MultiHeadAttention(2, 3, name="mha", **config)
        made = layer(q, v, **more) if k is None else layer(q, v, k, **more)
        outs = list(made) if isinstance(made, (list, tuple)) else [made]
        return {"model": keras.Model([a, b], [L.Flatten(name=f"f{i}")(o) for i, o in
                                              enumerate(outs)], name="m"),
                "x": x, "y": [draw(rng, 3, int(np.prod(o.shape[1:]))) for o in outs[:1]]
                + [draw(rng, 3, 2 * queries * keys) for _ in outs[1:]], "loss": "mse"}
    CASES[name] = build


attend("attention", lambda keras, L, q, v: {})
attend("attention_dims", lambda keras, L, q, v: {}, value_dim=5, output_shape=3, use_bias=False,
       key_width=7)
attend("attention_shape", lambda keras, L, q, v: {}, value_dim=2, output_shape=(2, 3),
       kernel_regularizer="l2", bias_regularizer="l1")
attend("attention_causal", lambda keras, L, q, v: {"use_causal_mask": True}, queries=5)
attend("attention_causal_more_keys", lambda keras, L, q, v: {"use_causal_mask": True}, keys=7)
attend("attention_masked", lambda keras, L, q, v: {}, masked=True)
attend("attention_masked_causal", lambda keras, L, q, v: {"use_causal_mask": True}, masked=True)
attend("attention_scores", lambda keras, L, q, v: {"return_attention_scores": True,
       "use_causal_mask": True}, masked=True)


@case
def attention_mask_given(keras, keras2, rng):
    """A mask that hides all keys from one query."""
    L = keras.layers
    a, m = L.Input((4, 3), name="a"), L.Input((4, 4), name="m4")
    h = L.Dense(4, name="d")(a)
    h = L.MultiHeadAttention(2, 2, name="mha")(h, h, attention_mask=m)
    mask = rng.integers(0, 2, (3, 4, 4)).astype("float32")
    mask[0, 1] = 0
    return {"model": keras.Model([a, m], h, name="m"),
            "x": {"a": draw(rng, 3, 4, 3), "m4": mask}, "y": draw(rng, 3, 4, 4), "loss": "mse"}


@case
def attention_tokens(keras, keras2, rng):
    """Masks from an embedding to itself and into the loss."""
    L = keras.layers
    a = L.Input((5,), name="a")
    h = L.Embedding(6, 4, mask_zero=True, name="e")(a)
    h = L.MultiHeadAttention(2, 2, name="mha")(h, h)
    out = L.Dense(3, activation="softmax", name="out")(h)
    return {"model": keras.Model(a, out, name="m"), "x": {"a": tokens(rng)},
            "y": rng.integers(0, 3, (3, 5)).astype("float32"),
            "loss": "sparse_categorical_crossentropy"}


@case
def attention_takes_masks(keras, keras2, rng):
    """Keras 3's attention takes the masks off its inputs, for what comes after it."""
    L = keras.layers
    a = L.Input((5,), name="a")
    e = L.Embedding(6, 4, mask_zero=True, name="e")(a)
    s = L.Add(name="sum")([e, L.MultiHeadAttention(1, 4, name="mha1")(e, e)])
    x = L.LayerNormalization(name="n")(s)
    o = L.GlobalAveragePooling1D(name="p")(L.MultiHeadAttention(1, 4, name="mha2")(x, x))
    return {"model": keras.Model(a, [s, o], name="m"), "x": {"a": tokens(rng)},
            "y": [draw(rng, 3, 5, 4), draw(rng, 3, 4)], "loss": "mse"}


@case
def masking_functional(keras, keras2, rng):
    L = keras.layers
    a = L.Input((5, 3), name="a")
    return {"model": keras.Model(a, L.LSTM(2, name="l")(L.Masking(name="mask")(a)), name="m"),
            "x": {"a": steps(rng, 3, 5, 3)}, "y": draw(rng, 3, 2), "loss": "mse"}


def block(keras, L, x, width, name):
    h = L.LayerNormalization(epsilon=1e-5, name=name + "_n1")(x)
    h = L.MultiHeadAttention(2, width // 2, name=name + "_mha")(h, h, use_causal_mask=True)
    x = L.Add(name=name + "_a1")([x, h])
    h = L.LayerNormalization(epsilon=1e-5, name=name + "_n2")(x)
    h = L.Dense(width, name=name + "_down")(L.Dense(2 * width, activation="gelu",
                                                    name=name + "_up")(h))
    return L.Add(name=name + "_a2")([x, h])


@case
def transformer(keras, keras2, rng):
    """Two blocks, the first in a model of its own, over tokens and the embedding of positions."""
    L = keras.layers
    a, p = L.Input((4,), name="tokens"), L.Input((4,), name="positions")
    i = L.Input((4, 4), name="i")
    inner = keras.Model(i, block(keras, L, i, 4, "b1"), name="inner")
    h = L.Add(name="sum")([L.Embedding(6, 4, name="te")(a), L.Embedding(4, 4, name="pe")(p)])
    h = block(keras, L, inner(h), 4, "b2")
    out = L.Dense(6, name="out")(L.LayerNormalization(name="n")(h))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return {"model": keras.Model([a, p], out, name="m"),
            "x": {"tokens": rng.integers(0, 6, (3, 4)).astype("float32"),
                  "positions": np.tile(np.arange(4), (3, 1)).astype("float32")},
            "y": rng.integers(0, 6, (3, 4)).astype("float32"), "loss": loss,
            "loss_name": {"class_name": "SparseCategoricalCrossentropy",
                          "config": {"from_logits": True}}}


def layers_case(name, layers, *shape, keras3_only=False, **more):
    def build(keras, keras2, rng):
        if keras2 and keras3_only:
            return None
        spec = one(keras, layers(keras.layers), draw(rng, 3, *shape), None, **more)
        spec["y"] = draw(rng, 3, *spec["model"].output_shape[1:])
        return spec
    CASES[name] = build


for _merge in ["concat", "sum", "ave", "mul"]:
    rnn("bidirectional_" + _merge, lambda L, merge=_merge: [L.Bidirectional(L.GRU(
        2, return_sequences=True, kernel_regularizer="l2"), merge_mode=merge),
        L.Bidirectional(L.LSTM(2), merge_mode=merge)], masked=_merge == "sum")
rnn("bidirectional_masked", lambda L: [L.Bidirectional(L.LSTM(2, return_sequences=True), name="b"),
    L.Bidirectional(L.SimpleRNN(2), backward_layer=L.SimpleRNN(2, activation="relu",
                                                               go_backwards=True))], masked=True)
rnn("time_distributed", lambda L: [L.TimeDistributed(L.Dense(4, activation="softmax",
    kernel_regularizer="l1"), name="td"), L.TimeDistributed(L.Reshape((2, 2))),
    L.TimeDistributed(L.Conv1D(2, 2))])


@case
def bidirectional_states(keras, keras2, rng):
    L = keras.layers
    a = L.Input((4, 3), name="a")
    outs = L.Bidirectional(L.LSTM(2, return_sequences=True, return_state=True), merge_mode=None,
                           name="b")(a)
    y = L.Bidirectional(L.LSTM(2, return_state=True), name="c")(L.Concatenate(name="j")(
        list(outs[:2])), initial_state=list(outs[2:]))
    out = L.Concatenate(name="cat")(list(y))
    return {"model": keras.Model(a, out, name="m"), "x": {"a": draw(rng, 3, 4, 3)},
            "y": draw(rng, 3, 12), "loss": "mse"}


layers_case("prelu", lambda L: [L.Dense(4), L.PReLU(), L.Dense(3), L.PReLU(
    shared_axes=[1], alpha_regularizer="l2"), L.Dense(2)], 3, 5)
layers_case("group_norm", lambda L: [L.Conv2D(6, 2), L.GroupNormalization(3), L.Conv2D(4, 1),
    L.GroupNormalization(-1, center=False), L.GroupNormalization(2, scale=False, epsilon=0.1)],
    5, 4, 2)
layers_case("rms_norm", lambda L: [L.Dense(4), L.RMSNormalization(), L.Dense(3),
    L.RMSNormalization(epsilon=0.1)], 3, 5, keras3_only=True)
layers_case("unit_norm", lambda L: [L.Dense(4), L.UnitNormalization(), L.Dense(3),
    L.UnitNormalization(axis=[1, 2])], 3, 5)
layers_case("activity", lambda L: [L.Dense(4, activation="relu", activity_regularizer="l2"),
    L.Flatten(), L.ActivityRegularization(l1=0.02, l2=0.01), L.Dense(
        3, activation="tanh", activity_regularizer="l1")], 2, 3)
@case
def glu(keras, keras2, rng):
    """Keras believes that glu leaves the shape as it is, so nothing can come after it."""
    if keras2:
        return None
    L = keras.layers
    return one(keras, [L.Dense(6, activation="glu", name="d")], draw(rng, 3, 4), draw(rng, 3, 3))


@case
def activity_of_logits(keras, keras2, rng):
    """On what the loss looks behind, and on what no loss is taken of."""
    L = keras.layers
    a = L.Input((4,), name="a")
    h = L.Dense(3, activity_regularizer="l2", name="h")(a)
    out = L.Dense(3, activation="softmax", activity_regularizer="l2", name="out")(h)
    side = L.Dense(2, activity_regularizer="l1", name="side")(h)
    both = L.Concatenate(name="cat")([L.Dense(1, name="one")(side), a])
    return {"model": keras.Model(a, [out, both], name="m"), "x": {"a": draw(rng, 4, 4)},
            "y": [np.eye(3, dtype="float32")[rng.integers(0, 3, 4)], draw(rng, 4, 5)],
            "loss": ["categorical_crossentropy", "mse"]}


@case
def softmax_masked(keras, keras2, rng):
    L = keras.layers
    a, m = L.Input((3, 4), name="a"), L.Input((3, 4), name="mm")
    h = L.Dense(4, name="d")(a)
    out = L.Concatenate(name="cat")([L.Flatten(name="f")(L.Softmax(name="s")(h, m)),
                                     L.Flatten(name="g")(L.Softmax(name="t")(h))])
    mask = rng.integers(0, 2, (4, 3, 4)).astype("float32")
    mask[1, 2] = 0
    return {"model": keras.Model([a, m], out, name="m"),
            "x": {"a": draw(rng, 4, 3, 4), "mm": mask}, "y": draw(rng, 4, 24), "loss": "mse"}


def mixed(name, build_layers, dtype, tolerance, *shape, **more):
    """Under a mixed policy, but for the last layer. Keras rounds between layers, too."""
    def build(keras, keras2, rng):
        L = keras.layers
        made = build_layers(L, {"dtype": dtype}) + [L.Activation("linear", dtype="float32")]
        spec = one(keras, made, draw(rng, 3, *shape), None, **more)
        spec["y"] = draw(rng, 3, *spec["model"].output_shape[1:])
        spec["tolerance"] = tolerance
        return spec
    CASES[name] = build


for _dtype, _tolerance in [("mixed_bfloat16", 0.1), ("mixed_float16", 0.01)]:
    mixed(_dtype + "_dense", lambda L, d: [
        L.Dense(6, activation="gelu", kernel_regularizer="l2", **d), L.LayerNormalization(**d),
        L.Dropout(0.0, **d), L.Dense(4, activation="tanh", **d), L.Dense(2, **d)],
        _dtype, _tolerance, 5)
    mixed(_dtype + "_conv", lambda L, d: [
        L.Conv2D(4, 3, activation="relu", **d), L.BatchNormalization(name="batch_norm", **d),
        L.MaxPooling2D(2, **d), L.Flatten(**d), L.Dense(3, **d)], _dtype, _tolerance, 7, 6, 2)
    mixed(_dtype + "_lstm", lambda L, d: [
        L.LSTM(3, return_sequences=True, **d), L.GRU(3, **d), L.Dense(2, **d)],
        _dtype, _tolerance, 4, 3)


@case
def mixed_softmax(keras, keras2, rng):
    """The usual end of a model under a mixed policy: logits in bfloat16, softmax in float32."""
    L = keras.layers
    d = {"dtype": "mixed_bfloat16"}
    a = L.Input((4,), name="a")
    h = L.Dense(5, activation="relu", name="h", **d)(a)
    h = L.Add(name="sum", **d)([h, L.Dense(5, name="g", **d)(h)])
    out = L.Activation("softmax", dtype="float32", name="out")(L.Dense(3, name="z", **d)(h))
    return {"model": keras.Model(a, out, name="m"), "x": {"a": draw(rng, 4, 4)},
            "y": rng.integers(0, 3, (4,)).astype("float32"), "tolerance": 0.1,
            "loss": "sparse_categorical_crossentropy"}


@case
def states_masked(keras, keras2, rng):
    """First states under a mask that begins with masked steps."""
    L = keras.layers
    a, h = L.Input((5, 3), name="a"), L.Input((2,), name="h")
    first = L.Dense(2, name="first")(h)
    out = L.GRU(2, return_sequences=True, name="g")(L.Masking(name="mask")(a), initial_state=first)
    return {"model": keras.Model([a, h], L.Flatten(name="f")(out), name="m"),
            "x": {"a": steps(rng, 3, 5, 3), "h": draw(rng, 3, 2)}, "y": draw(rng, 3, 10),
            "loss": "mse"}


def scored(name, layer, masked=False, key=False, **call):
    """Attention of one head without projections; `layer(L)` makes it."""
    def build(keras, keras2, rng):
        L = keras.layers
        a, b = L.Input((3, 2), name="a"), L.Input((4, 3), name="b")
        q, v = L.Dense(3, name="q")(a), L.Dense(3, name="v")(b)
        x = {"a": draw(rng, 3, 3, 2), "b": draw(rng, 3, 4, 3)}
        if masked:
            q, v = L.Dense(3, name="q2")(L.Masking(name="mq")(a)), L.Masking(name="mv")(b)
            x["a"][2, 2:] = 0
            x["b"][1, 2:] = 0
        k = [L.Dense(3, name="k")(b)] if key else []
        made = layer(L)([q, v] + k, **call)
        outs = list(made) if isinstance(made, (list, tuple)) else [made]
        return {"model": keras.Model([a, b], [L.Flatten(name=f"f{i}")(o) for i, o in
                                              enumerate(outs)], name="m"),
                "x": x, "y": [draw(rng, 3, int(np.prod(o.shape[1:]))) for o in outs],
                "loss": "mse"}
    CASES[name] = build


scored("score_attention", lambda L: L.Attention(use_scale=True, name="s"), key=True,
       return_attention_scores=True)
scored("score_attention_masked", lambda L: L.Attention(name="s"), masked=True, use_causal_mask=True)
scored("score_attention_concat", lambda L: L.Attention(True, score_mode="concat", name="s"))
scored("additive_attention", lambda L: L.AdditiveAttention(name="s"), masked=True)
scored("additive_attention_plain", lambda L: L.AdditiveAttention(use_scale=False, name="s"),
       key=True, use_causal_mask=True)


def attend_along(name, axes, steps=(2, 3), keys=None, call=None, **config):
    """Attention along some of several axes of steps."""
    def build(keras, keras2, rng):
        if keras2 and (call or axes == -2):  # there it means the heads
            return None
        L = keras.layers
        a = L.Input((*steps, 3), name="a")
        b = L.Input((*(keys or steps), 4), name="b")
        q = L.Dense(4, name="q")(a)
        outs = L.MultiHeadAttention(2, 3, attention_axes=axes, name="mha", **config)(
            q, b, **(call or {}))
        outs = list(outs) if isinstance(outs, (list, tuple)) else [outs]
        outs = [L.Flatten(name=f"f{i}")(o) for i, o in enumerate(outs)]
        model = keras.Model([a, b], outs, name="m")
        x = {"a": draw(rng, 3, *steps, 3), "b": draw(rng, 3, *(keys or steps), 4)}
        made = model(x) if len(outs) > 1 else [model(x)]
        return {"model": model, "x": x, "y": [draw(rng, *np.shape(o)) for o in made],
                "loss": "mse"}
    CASES["attention_axes_" + name] = build


attend_along("all", None, keys=(3, 2))
attend_along("rows", (2,), keys=(2, 4))
attend_along("columns", (1,), keys=(4, 3))
attend_along("columns_behind", [-3], steps=(2, 3))
attend_along("two_of_three", (1, 3), steps=(2, 3, 2), keys=(3, 3, 1), value_dim=2)
attend_along("inner_of_three", (2, 3), steps=(2, 2, 2), output_shape=5, use_bias=False)
attend_along("shape", (2,), output_shape=(2, 3))
attend_along("scores", (2,), call={"return_attention_scores": True})
attend_along("one", -2, steps=(4,), keys=(3,))


def softmax_along(name, axis, *shape):
    def build(keras, keras2, rng):
        L = keras.layers
        return one(keras, [L.Dense(shape[-1]), L.Softmax(axis=axis), L.Dense(2)],
                   draw(rng, 3, *shape), draw(rng, 3, *shape[:-1], 2), loss="mse")
    CASES["softmax_" + name] = build


softmax_along("two_axes", [1, 2], 3, 4)
softmax_along("first_and_last", [1, 3], 2, 3, 4)
softmax_along("first_two", (1, 2), 2, 3, 4)
softmax_along("last_two", [-2, -1], 2, 3, 4)


rnn("batch_norm_masked", lambda L: [L.Dense(4), L.BatchNormalization(momentum=0.5, name="bn"),
    L.LSTM(3, return_sequences=True), L.BatchNormalization(scale=False, epsilon=0.1),
    L.GlobalAveragePooling1D(), L.Dense(2)], masked=True)
rnn("batch_norm_masked_loss", lambda L: [L.BatchNormalization(name="first"), L.Dense(3),
    L.BatchNormalization(center=False), L.BatchNormalization(trainable=False)], masked=True)


@case
def batch_norm_tokens(keras, keras2, rng):
    """A batch of which hardly anything counts."""
    L = keras.layers
    x = tokens(rng)
    x[:, 1:] = 0
    return one(keras, [L.Embedding(6, 3, mask_zero=True), L.BatchNormalization(name="bn"),
                       L.Dense(2), L.BatchNormalization(name="bn2")], x, draw(rng, 3, 5, 2))


rnn("activity_within", lambda L: [L.TimeDistributed(L.Dense(4, activation="tanh",
    activity_regularizer="l2")), L.TimeDistributed(L.ActivityRegularization(l1=0.25, l2=0.125)),
    L.Bidirectional(L.LSTM(2, return_sequences=True, activity_regularizer="l1")),
    L.Bidirectional(L.GRU(2, activity_regularizer="l2"))])


@case
def batch_norm_masked_pixels(keras, keras2, rng):
    """Keras 2 takes no notice of the mask of an image."""
    L = keras.layers
    x = draw(rng, 3, 4, 3, 2)
    x[0, 1:] = 0
    x[2, :, 1] = 0
    return one(keras, [L.Masking(), L.BatchNormalization(name="bn"), L.Dense(2, activation="tanh"),
                       L.BatchNormalization(name="bn2"), L.Flatten()], x, draw(rng, 3, 24))


@case
def attention_passes_masks(keras, keras2, rng):
    """Out of an Attention, whose masks Keras 3 writes into the model as operations."""
    L = keras.layers
    a = L.Input((5,), name="a")
    e = L.Embedding(6, 3, mask_zero=True, name="e")(a)
    h = L.LSTM(3, return_sequences=True, name="l")(L.Attention(name="s")([e, e]))
    out = L.GRU(2, name="g")(L.AdditiveAttention(name="t")([h, e]))
    return {"model": keras.Model(a, out, name="m"), "x": {"a": tokens(rng)}, "y": draw(rng, 3, 2),
            "loss": "mse"}


@case
def masks_concatenated(keras, keras2, rng):
    """Side by side, under one mask, under two, and beside what has none."""
    L = keras.layers
    a, b = L.Input((5, 3), name="a"), L.Input((5, 2), name="b")
    m, n = L.Masking(name="ma")(a), L.Masking(name="mb")(b)
    one_mask = L.Concatenate(name="c1")([L.Dense(2, name="d1")(m), L.Dense(3, name="d2")(m)])
    two = L.Concatenate(name="c2")([one_mask, n])
    g = L.GRU(2, name="g")(one_mask)
    h = L.GRU(2, name="h")(two)
    k = L.LSTM(2, name="k")(L.Concatenate(name="c3")([m, L.Dense(2, name="d3")(b)]))
    out = L.Concatenate(name="out")([g, h, k])
    return {"model": keras.Model([a, b], out, name="m"),
            "x": {"a": steps(rng, 3, 5, 3), "b": steps(rng, 3, 5, 2)[::-1].copy()},
            "y": draw(rng, 3, 6), "loss": "mse"}


@case
def masks_of_operations(keras, keras2, rng):
    """No mask goes through an operation on tensors."""
    L = keras.layers
    a = L.Input((5, 3), name="a")
    m = L.Masking(name="mask")(a)
    g = L.GRU(2, name="g")(m * 2.0 + 1.0)
    h = L.LSTM(2, name="h")(L.Dense(3, name="d")(m) * m)
    out = L.Concatenate(name="out")([g, h])
    return {"model": keras.Model(a, out, name="m"), "x": {"a": steps(rng, 3, 5, 3)},
            "y": draw(rng, 3, 4), "loss": "mse"}


@case
def masks_merged(keras, keras2, rng):
    """Different masks, which Keras 3 joins by "or" and Keras 2 by "and", and one beside none."""
    L = keras.layers
    a, b = L.Input((5, 3), name="a"), L.Input((5, 3), name="b")
    m, n = L.Masking(name="ma")(a), L.Masking(name="mb")(b)
    g = L.GRU(2, name="g")(L.Add(name="add")([m, n]))
    h = L.LSTM(2, name="h")(L.Average(name="ave")([m, L.Dense(3, name="d")(b)]))
    k = L.GRU(2, name="k")(L.Multiply(name="mul")([m, L.Dense(3, name="e")(n), n]))
    out = L.Concatenate(name="out")([g, h, k])
    return {"model": keras.Model([a, b], out, name="m"),
            "x": {"a": steps(rng, 3, 5, 3), "b": steps(rng, 3, 5, 3)[::-1].copy()},
            "y": draw(rng, 3, 6), "loss": "mse"}


@case
def product_under_masks(keras, keras2, rng):
    """In Keras 3 what a mask hides is 1 to a Multiply, also for whoever takes no mask."""
    L = keras.layers
    a, b = L.Input((5, 3), name="a"), L.Input((5, 3), name="b")
    d, e = L.Dense(3, name="d"), L.Dense(3, name="e")
    m, n = d(L.Masking(name="ma")(a)), e(L.Masking(name="mb")(b))
    both = L.Multiply(name="both")([m, n])
    beside = L.Multiply(name="beside")([m, b])
    out = L.Concatenate(name="out")([L.GlobalMaxPooling1D(name="p")(both),
                                     L.GlobalMaxPooling1D(name="q")(beside)])
    x = {"a": steps(rng, 3, 5, 3), "b": steps(rng, 3, 5, 3)}
    x["b"][2, 1:] = 0
    return {"model": keras.Model([a, b], out, name="m"), "x": x, "y": draw(rng, 3, 6),
            "loss": "mse"}

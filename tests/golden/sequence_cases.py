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

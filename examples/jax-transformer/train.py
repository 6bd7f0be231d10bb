"""A Transformer of characters in JAX: 4 layers of 4 heads, 128 wide, with learned positions."""
import jax
import jax.numpy as jnp
import numpy as np
import paracord

CHARACTERS, CONTEXT, WIDTH, LAYERS, HEADS = 65, 64, 128, 4, 4


def zeros(*shape):
    return np.zeros(shape, np.float32)


def ones(*shape):
    return np.ones(shape, np.float32)


# Kernels and embeddings are drawn as INITIAL says, and the rest starts as it is here.
params = {"characters": {"embeddings": zeros(CHARACTERS, WIDTH)},
          "positions": {"embeddings": zeros(CONTEXT, WIDTH)},
          "norm": {"gamma": ones(WIDTH), "beta": zeros(WIDTH)},
          "logits": {"kernel": zeros(WIDTH, CHARACTERS), "bias": zeros(CHARACTERS)}}
for i in range(LAYERS):
    params[f"layer{i}"] = {
        "attention_norm": {"gamma": ones(WIDTH), "beta": zeros(WIDTH)},
        "qkv": {"kernel": zeros(WIDTH, 3 * WIDTH), "bias": zeros(3 * WIDTH)},
        "out": {"kernel": zeros(WIDTH, WIDTH), "bias": zeros(WIDTH)},
        "mlp_norm": {"gamma": ones(WIDTH), "beta": zeros(WIDTH)},
        "up": {"kernel": zeros(WIDTH, 4 * WIDTH), "bias": zeros(4 * WIDTH)},
        "down": {"kernel": zeros(4 * WIDTH, WIDTH), "bias": zeros(WIDTH)}}
INITIAL = {"*/kernel": "glorot_uniform", "*/embeddings": {"name": "random_normal", "stddev": 0.02}}


def dense(layer, x):
    return x @ layer["kernel"] + layer["bias"]


def norm(layer, x):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-5) * layer["gamma"] + layer["beta"]


def attention(layer, x):
    n, length, _ = x.shape
    q, k, v = (part.reshape(n, length, HEADS, -1)
               for part in jnp.split(dense(layer["qkv"], x), 3, axis=-1))
    scores = jnp.einsum("nqhd,nkhd->nhqk", q, k) / np.sqrt(WIDTH // HEADS)
    scores = jnp.where(np.tril(np.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("nhqk,nkhd->nqhd", jax.nn.softmax(scores), v)
    return dense(layer["out"], mixed.reshape(n, length, WIDTH))


def logits(params, tokens):
    x = params["characters"]["embeddings"][tokens] + params["positions"]["embeddings"]
    for i in range(LAYERS):
        layer = params[f"layer{i}"]
        x = x + attention(layer, norm(layer["attention_norm"], x))
        x = x + dense(layer["down"], jax.nn.gelu(dense(layer["up"], norm(layer["mlp_norm"], x))))
    return dense(params["logits"], norm(params["norm"], x))


@paracord.jax.program(params, initial=INITIAL, predict=logits,
                      outputs=[paracord.Output((CONTEXT, CHARACTERS))],
                      dtypes={"inputs": {"": "int64"}, "targets": {"": "int64"}})
def loss(params, tokens, following):
    chances = jax.nn.log_softmax(logits(params, tokens))
    return -jnp.take_along_axis(chances, following[..., None], axis=-1).mean()


paracord.serve(loss)

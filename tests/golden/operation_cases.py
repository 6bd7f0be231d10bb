"""Models for make_graphs.py, as those of graph_cases.py: the operations on tensors, one after the
other in a model, in Keras 2 the functions of TensorFlow."""
import numpy as np
import tensorflow as tf

from graph_cases import draw

CASES = {}


def case(*shape, keras2=True, scale=1.0):
    """A case of outputs made of (h, a): what a Dense layer gives of the input, and the input."""
    def add(build):
        def made(keras, is_keras2, rng):
            if is_keras2 and not keras2:
                return None
            L = keras.layers
            a = L.Input(shape, name="a")
            h = L.Dense(shape[-1], name="d")(a)
            outs = build(tf if is_keras2 else keras.ops, is_keras2, rng, h, a)
            flat = [L.Flatten(name=f"f{i}")(v) for i, v in enumerate(outs)]
            out = L.Concatenate(name="cat")(flat)
            return {"model": keras.Model(a, out, name="m"),
                    "x": {"a": draw(rng, 2, *shape) * scale},
                    "y": draw(rng, 2, out.shape[1]), "loss": "mse"}
        CASES["op_" + build.__name__] = made
        return build
    return add


@case(4, 6)
def splits(ops, keras2, rng, h, a):
    if keras2:
        p, q = tf.split(h, 2, axis=-1)
        r, s, t = tf.split(h, [1, -1, 1], axis=1)
        u = tf.unstack(h, axis=1)
    else:
        p, q = ops.split(h, 2, axis=-1)
        r, s, t = ops.split(h, [1, 3], axis=1)
        u = ops.unstack(h, axis=1)
    return [q * p, s * 2.0, r * t, u[3] * u[0]]


@case(4, 6)
def takes(ops, keras2, rng, h, a):
    if keras2:
        return [tf.gather(h, [5, 0, 0, 2], axis=-1), tf.gather(h, [[3, 1], [1, 0]], axis=1),
                tf.gather(h, 2, axis=1), tf.gather(h, np.array([1, 2]), axis=2)]
    return [ops.take(h, [5, 0, 0, -2], axis=-1), ops.take(h, [[3, 1], [1, 0]], axis=1),
            ops.take(h, 2, axis=1), ops.take(h, indices=np.array([1, 2]), axis=2)]


@case(3, 2, 4)
def axes(ops, keras2, rng, h, a):
    if keras2:
        return [tf.reverse(h, axis=[1, -1]) * h, tf.transpose(h, [0, 3, 1, 2]) * 2.0]
    return [ops.swapaxes(h, 1, -1) * 2.0, ops.moveaxis(h, 1, 3) * 2.0,
            ops.moveaxis(h, (-1, 1), (1, 2)) * 2.0, ops.flip(h, axis=1) * h,
            ops.flip(h, axis=(-1, 2)) * h, ops.transpose(h, (0, -1, 1, 2)) * 2.0]


@case(3, 2)
def copies(ops, keras2, rng, h, a):
    if keras2:
        return [tf.tile(h, [1, 2, 3]), tf.repeat(h, 3, axis=1), tf.repeat(h, 2, axis=-1),
                tf.pad(h, [[0, 0], [1, 0], [2, 1]]),
                tf.pad(h, [[0, 0], [0, 1], [0, 0]], constant_values=0.5)]
    return [ops.tile(h, [1, 2, 3]), ops.tile(h, 2), ops.repeat(h, 3, axis=1),
            ops.repeat(h, 2, axis=-1), ops.pad(h, [[0, 0], [1, 0], [2, 1]]),
            ops.pad(h, [[0, 0], [0, 1], [0, 0]], constant_values=0.5)]


@case(4, 3)
def mirrors(ops, keras2, rng, h, a):
    modes = ("REFLECT", "SYMMETRIC") if keras2 else ("reflect", "symmetric")
    return [ops.pad(h, [[0, 0], [2, 3], [1, 0]], mode=modes[0]),
            ops.pad(h, [[0, 0], [4, 1], [0, 3]], mode=modes[1]),
            ops.pad(h, [[0, 0], [0, 0], [2, 2]], mode=modes[0]) * 2.0]


@case(2, 3, scale=2.0)
def one_hots(ops, keras2, rng, h, a):
    """Of ids that are negative or too large, too, and whose own numbers have no gradient."""
    ids = ops.cast((tf.floor if keras2 else ops.floor)(h), "int32")
    last = tf.one_hot(ids, depth=2) if keras2 else ops.one_hot(ids, 2)
    whole = ops.cast(ops.one_hot(ids, 2, axis=2, dtype="int32"), "float32")
    return [h, last * 0.5, ops.one_hot(ids, 3, axis=1), whole]


def twice(keras2, ops, h):
    """h again, with twice its gradient: ties that share a gradient show."""
    return h * 2.0 - ops.stop_gradient(h)


@case(3, 2, 4)
def extremes(ops, keras2, rng, h, a):
    most, least = (tf.reduce_max, tf.reduce_min) if keras2 else (ops.max, ops.amin)
    pair = (tf.concat if keras2 else ops.concatenate)([h, twice(keras2, ops, h)], 1)
    return [most(pair, axis=1), least(pair, axis=[1, 2]), most(h, axis=-1, keepdims=True),
            least(h, axis=2), most(pair, axis=[1, -1], keepdims=True), least(h, axis=[-1, 1])]


@case(3, 2, 4)
def moments(ops, keras2, rng, h, a):
    var, std = (tf.math.reduce_variance, tf.math.reduce_std) if keras2 else (ops.var, ops.std)
    return [var(h, axis=1), std(h, axis=[1, 3]), var(h, axis=-1, keepdims=True) * h,
            std(h, axis=2, keepdims=True)]


@case(3, 2, 4, keras2=False)
def norms_of_order_1(ops, keras2, rng, h, a):
    return [ops.normalize(h, axis=1, order=1), ops.normalize(h, axis=-1, order=1) * h,
            ops.normalize(h, axis=2, order=1, epsilon=1.0)]


@case(3, 2, 4)
def norms(ops, keras2, rng, h, a):
    if keras2:
        return [tf.norm(h, axis=1), tf.norm(h, axis=-1, keepdims=True) * h, tf.norm(h, 1, axis=2),
                tf.math.l2_normalize(h, axis=-1), tf.math.l2_normalize(h, axis=[1, 2]),
                tf.nn.l2_normalize(h, axis=2, epsilon=0.5), tf.reduce_logsumexp(h, axis=[1, 3]),
                tf.reduce_logsumexp(h * 9.0, axis=-1, keepdims=True)]
    return [ops.norm(h, axis=1), ops.norm(h, axis=-1, keepdims=True) * h, ops.norm(h, 1, axis=2),
            ops.norm(h, axis=(1, 3)), ops.norm(h, "fro", axis=(-1, 2)),
            ops.normalize(h, axis=1), ops.normalize(h, axis=-1),
            ops.normalize(ops.relu(h - 0.5) * 1e-7, axis=2) * 1e-7,
            ops.logsumexp(h, axis=(1, 3)), ops.logsumexp(h * 9.0, axis=-1, keepdims=True),
            ops.average(h, axis=2)]


@case(3, 4)
def truths(ops, keras2, rng, h, a):
    g = a * 1.5
    if keras2:
        t, where, cast = tf.math, tf.where, tf.cast
        mod, no = t.floormod, t.logical_not
        ands, ors = t.logical_and, t.logical_or
        tests = [t.greater(h, 0.1), t.greater_equal(h, g), t.less(0.2, h),
                 t.less_equal(h, g[:, :1]), t.equal(h, h), t.not_equal(h, g)]
    else:
        where, cast, mod, no = ops.where, ops.cast, ops.mod, ops.logical_not
        ands, ors = ops.logical_and, ops.logical_or
        tests = [ops.greater(h, 0.1), ops.greater_equal(h, g), ops.less(0.2, h),
                 ops.less_equal(h, g[:, :1]), ops.equal(h, h), ops.not_equal(h, g)]
    p, q, r, s, same, other = tests
    made = [where(p, h, g), where(q, h * 2.0, -1.0), where(r, 0.5, h), where(no(s), h[:, :1], h),
            where(ands(p, s), h, h[:, :, 1:2]), where(ors(q, r), h * h, 0.0),
            cast(same, "float32") * h, cast(other, "float32") * h, mod(h, 0.3),
            mod(h * 9.0, g + 2.0), where(p, h, np.array([1.0, 2.0, 3.0, 4.0], "float32"))]
    if not keras2:
        made += [ops.any(p, axis=1), ops.all(q, axis=[1, 2], keepdims=True)]
        made = [m if m.dtype == "float32" else cast(m, "float32") for m in made]
    return made


@case(3, 4)
def roundings(ops, keras2, rng, h, a):
    g = a * 3.0
    if keras2:
        m, cast = tf.math, tf.cast
        made = [m.sign(g), m.round(g), m.floor(g), m.ceil(g), g // 0.7,
                cast(cast(g, "int32"), "float32")]
    else:
        cast = ops.cast
        made = [ops.sign(g), ops.round(g), ops.floor(g), ops.ceil(g), g // 0.7, g // (a + 2.0),
                cast(cast(g, "int32"), "float32"), cast(cast(g, "bool"), "float32"), ops.trunc(g)]
    return [h * v for v in made]


@case(2, 6, scale=0.3)
def functions(ops, keras2, rng, h, a):
    above = h * h + 0.5
    if keras2:
        m, n = tf.math, tf.nn
        return [m.log_sigmoid(h), n.elu(h), n.selu(h), n.silu(h), n.relu6(h * 9.0), n.softplus(h),
                n.softsign(h), n.log_softmax(h), m.erf(h), m.atan(h), m.tan(h), m.sinh(h),
                m.cosh(h), m.sin(h), m.cos(h), m.rsqrt(above),
                m.reciprocal(above), m.log1p(above), m.expm1(h),
                m.add_n([h, a, h]), tf.zeros_like(h) + h, tf.ones_like(h) * h, tf.identity(h) * 2.0,
                n.softmax(h, axis=1), 2.0 ** h]
    return [ops.hard_sigmoid(h * 4.0), ops.log_sigmoid(h), ops.hard_silu(h * 4.0),
            ops.hard_tanh(h * 2.0), ops.celu(h, 0.5), ops.tanh_shrink(h),
            ops.soft_shrink(h, 0.25), ops.hard_shrink(h, 0.25), ops.sparse_plus(h),
            ops.sparse_sigmoid(h), ops.squareplus(h, 2), ops.glu(h),
            ops.sparsemax(h), ops.erf(h), ops.arctan(h), ops.tan(h), ops.sinh(h), ops.cosh(h),
            ops.log2(above), ops.log10(above), ops.softmax(h, axis=1),
            ops.log_softmax(h, axis=1), 2.0 ** h]


@case(4, 6, keras2=False)
def einsums(ops, keras2, rng, h, a):
    q = ops.reshape(h, (-1, 4, 2, 3))
    weights = ops.softmax(ops.einsum("bqhd,bkhd->bhqk", q, q * 0.5), axis=-1)
    each = ops.mean(h, axis=2)
    return [ops.einsum("bhqk,bkhd->bqhd", weights, q), ops.einsum("be,bed->bd", each, h),
            ops.einsum("bi,bj->bji", each, h[:, 0, :]), ops.einsum("...i,...i->...", h, a),
            ops.einsum("...ij,...kj->...ik", h, a), ops.einsum("bij,bij->bij", h, a)]


@case(3, 4, 5)
def places(ops, keras2, rng, h, a):
    """Of equal elements the first counts. No zero is negative, which Keras 3 with TensorFlow takes
    for less than zero."""
    few = (tf.round if keras2 else ops.round)(a * 2.0) + 0.0
    if keras2:
        most, least, cast = tf.argmax, tf.argmin, tf.cast
    else:
        most, least, cast = ops.argmax, ops.argmin, ops.cast
    found = [most(h, axis=-1), most(few, axis=1), least(few, axis=2), most(h, axis=2)]
    if not keras2:
        found += [most(few, axis=-2, keepdims=True), least(h, axis=3, keepdims=True)]
    return [cast(f, "float32") for f in found] + [h]


@case(3, 4, 5)
def rolls(ops, keras2, rng, h, a):
    roll = tf.roll if keras2 else ops.roll
    return [roll(h, 1, axis=1) * h, roll(h, -2, axis=-1) * h, roll(h, shift=9, axis=2) * h,
            roll(h, [1, 2], axis=[1, 3]) * h, roll(h, (1, 1, -3), axis=(2, 2, 3)) * h,
            roll(h, 3, axis=1) * h]


@case(4, 4, keras2=False)
def einsums_of_any(ops, keras2, rng, h, a):
    """One tensor, three, diagonals, and axes that nobody else names."""
    e, g = ops.einsum, h[:, 0, :]
    return [e("bij->bji", h) * 2.0, e("bij->bj", h), e("bii->bi", h), e("bii->b", h)[:, None],
            e("bi,bij,bj->b", g, h, g)[:, None], e("bi,bj,bk->bkij", g, a[:, 1, :], g),
            e("bij,bkl->bi", h, a), e("bii,bjk->bk", h, a * 0.5),
            e("bij,bjk,bkl->bil", h, a, h), e("b...i->b...", h), e("bi...,bj...->bij...", h, a)]


@case(2, 6)
def with_numbers(ops, keras2, rng, h, a):
    """Of a tie the first operand has the gradient; a quotient is none of a rounded reciprocal."""
    most, least, floor = ops.maximum, ops.minimum, tf.floor if keras2 else ops.floor
    tie = h - ops.stop_gradient(h)
    whole = floor(a * 100.0) * 41.0
    return [most(0.0, tie), most(tie, 0.0), least(0.0, tie), least(tie, 0.0), most(0.25, h),
            least(h, 0.25), h / 41.0, floor(whole / 41.0) * h, 3.0 / (h * h + 0.5)]

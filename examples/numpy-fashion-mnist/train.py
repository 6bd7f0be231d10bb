"""A perceptron 784-512-10 on Fashion-MNIST, its gradients by hand in NumPy."""
import numpy as np
import paracord

SIZES = {"hidden/kernel": (784, 512), "hidden/bias": (512,),
         "output/kernel": (512, 10), "output/bias": (10,)}


def forward(values, images):
    x = images.reshape(len(images), -1)
    hidden = np.maximum(x @ values["hidden/kernel"] + values["hidden/bias"], 0)
    return x, hidden, hidden @ values["output/kernel"] + values["output/bias"]


def predict(values, images):
    return forward(values, images)[2]


@paracord.numpy.program(
    variables=[paracord.Variable(name, shape, "zeros" if len(shape) == 1 else "glorot_uniform")
               for name, shape in SIZES.items()],
    predict=predict, outputs=[paracord.Output((10,))])
def loss(values, images, labels):
    x, hidden, logits = forward(values, images)
    rows = np.arange(len(labels))
    labels = labels.astype(int)
    share = np.exp(logits - logits.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    mean = -np.log(share[rows, labels] + 1e-7).mean()
    share[rows, labels] -= 1
    by_logits = share / len(labels)
    by_hidden = (by_logits @ values["output/kernel"].T) * (hidden > 0)
    return mean, {"output/kernel": hidden.T @ by_logits, "output/bias": by_logits.sum(axis=0),
                  "hidden/kernel": x.T @ by_hidden, "hidden/bias": by_hidden.sum(axis=0)}


paracord.serve(loss)

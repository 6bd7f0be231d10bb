"""What both sides train, on which data, and how much of everything is measured."""
import gzip
import os

import numpy as np

JOBS = {
    "mlp64": dict(layers=[512, 256], batch=64, optimizer="adam", steps=4000),
    "mlp256": dict(layers=[512, 256], batch=256, optimizer="adam", steps=1500),
    "cnn64": dict(cnn=True, batch=64, optimizer="adam", steps=700),
    "large": dict(layers=[4096, 4096], batch=32, optimizer="sgd", steps=250),
    "tiny": dict(layers=[], inputs=1, batch=1, optimizer="sgd", steps=4000),
    # 26 ids an example, of one table.
    "rows": dict(rows=2_000_000, ids=26, width=16, layers=[64], inputs=26 * 16, batch=256,
                 optimizer="adagrad", steps=3000),
}
RECORDS, ROWS_RECORDS = 8192, 65536  # the latter of rows
NPY_HEADER = 128  # bytes, of files as small as these
MNIST = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
# Bytes of the variable that is moved, and how many times in one step of TensorFlow's.
WIRE = {"64 MB": (64_000_000, 4), "16 MB": (16_000_000, 8), "1 MB": (1_000_000, 16),
        "4 KB": (4096, 32)}
ACCURACY, EPOCHS_MAX = 0.9, 10
KILLS, AWAY_MAX = 12, 60  # AWAY_MAX: seconds
KILLS_STEPS, KILLS_PAUSE = 14000, 1.2  # of ours: enough steps for 12 pauses of so many seconds
FAULT_STEPS, CHECKPOINT_SECONDS = 6000, 2
CHECKPOINT_STEPS = 150


def shapes(job):
    """Kernels and biases, layer by layer."""
    if job.get("cnn"):
        return [(3, 3, 1, 32), (32,), (3, 3, 32, 64), (64,), (3136, 128), (128,), (128, 10), (10,)]
    sizes = [job.get("inputs", 784)] + job["layers"] + [10]
    return [s for a, b in zip(sizes, sizes[1:]) for s in ((a, b), (b,))]


def write_data(job, folder):
    rng = np.random.default_rng(1)
    records = ROWS_RECORDS if "rows" in job else RECORDS
    if "rows" in job:
        np.save(f"{folder}/x.npy", rng.integers(0, job["rows"], (records, job["ids"]), np.int64))
    else:
        np.save(f"{folder}/x.npy", rng.random((records, job.get("inputs", 784)), dtype=np.float32))
    np.save(f"{folder}/y.npy", rng.integers(0, 10, records).astype(np.int64))
    assert os.path.getsize(f"{folder}/y.npy") == NPY_HEADER + records * 8


def mnist_files(folder):
    """Images and labels to train on, images and labels to test with."""
    files = [f"{folder}/{name}-ubyte.gz" for name in MNIST]
    for file in files:
        with gzip.open(file) as f:
            f.read(4)
    return files


def keras_model(job):
    def layer(kind, **config):
        return {"class_name": kind, "config": config}
    shape = [28, 28] if job.get("cnn") and "mnist" in job else [job.get("inputs", 784)]
    layers = [layer("InputLayer", batch_shape=[None] + shape)]
    if "rows" in job:
        layers = [layer("InputLayer", batch_shape=[None, job["ids"]], dtype="int64"),
                  layer("Embedding", name="e", input_dim=job["rows"], output_dim=job["width"]),
                  layer("Flatten", name="f")]
    if job.get("cnn"):
        layers.append(layer("Reshape", name="r", target_shape=[28, 28, 1]))
        for i, filters in enumerate((32, 64)):
            layers += [layer("Conv2D", name=f"c{i}", filters=filters, kernel_size=[3, 3],
                             padding="same", activation="relu"),
                       layer("MaxPooling2D", name=f"p{i}", pool_size=[2, 2])]
        layers.append(layer("Flatten", name="f"))
    for i, units in enumerate([128] if job.get("cnn") else job["layers"]):
        layers.append(layer("Dense", name=f"d{i}", units=units, activation="relu"))
    layers.append(layer("Dense", name="out", units=10))
    return {"class_name": "Sequential", "config": {"name": "m", "layers": layers}}

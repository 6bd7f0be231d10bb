"""A worker of TensorFlow: `tensorflow_worker.py INDEX CONFIG` trains with
MultiWorkerMirroredStrategy, in a loop of its own whose step is one tf.function."""
import json
import os
import sys
import time

import jobs
import machine
import numpy as np


def model_of(tf, job):
    layers = tf.keras.layers
    if job.get("cnn"):
        parts = [layers.Reshape((28, 28, 1))]
        for filters in (32, 64):
            parts += [layers.Conv2D(filters, 3, padding="same", activation="relu"),
                      layers.MaxPooling2D(2)]
        parts += [layers.Flatten(), layers.Dense(128, activation="relu")]
    else:
        parts = [layers.Dense(units, activation="relu") for units in job["layers"]]
    return tf.keras.Sequential([layers.Input((784,)), *parts, layers.Dense(10)])


def main():
    index, config = int(sys.argv[1]), json.loads(sys.argv[2])
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": config["workers"]},
                                          "task": {"type": "worker", "index": index}})
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    job, steps = config["job"], config["steps"]
    rng = np.random.default_rng(index)
    x = rng.random((jobs.RECORDS, 784), dtype=np.float32)
    y = rng.integers(0, 10, jobs.RECORDS).astype(np.int64)
    batch = job["batch"]
    batches = (tf.data.Dataset.from_tensor_slices(
        (x.reshape(-1, batch, 784), y.reshape(-1, batch))).cache().repeat().prefetch(2))
    with strategy.scope():
        model = model_of(tf, job)
        optimizer = tf.keras.optimizers.Adam()
        optimizer.build(model.trainable_variables)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def replica(images, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True)) / strategy.num_replicas_in_sync
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    several = 10  # steps a call, so that Python weighs less

    @tf.function
    def step(iterator):
        loss = tf.constant(0.0)
        for _ in tf.range(several):
            images, labels = next(iterator)
            loss = strategy.run(replica, args=(images, labels))
        return loss

    iterator = iter(batches)
    first = max(1, steps // 10 // several)
    count = steps // several
    for call in range(count):
        if call == first:
            begin = time.monotonic()
        loss = step(iterator)
    float(loss)
    seconds = time.monotonic() - begin
    print(json.dumps({"samples_per_second": (count - first) * several * batch / seconds,
                      "mb": machine.memory_mb("self")[""]}))


if __name__ == "__main__":
    main()

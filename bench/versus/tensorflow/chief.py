"""TensorFlow's processes: `chief.py ROLE INDEX CONFIG` is a ps, a worker or the one that trains.

The chief prints one JSON object a line; a line that it reads, or the end of its input, ends a job
without end. Servers leave when their input ends, which is when who started them has ended.
"""
import json
import os
import sys
import threading
import time

import jobs


def say(**what):
    print(json.dumps(what), flush=True)


def serve(role, index, config):
    import tensorflow as tf
    options = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1,
                                       inter_op_parallelism_threads=2)
    options.experimental.share_session_state_in_clusterspec_propagation = False
    server = tf.distribute.Server(config["cluster"], job_name=role, task_index=index,
                                  protocol="grpc", config=options, start=True)
    sys.stdin.read()
    del server
    os._exit(0)


def idx_gz(tf, file, header):
    raw = tf.io.decode_raw(tf.io.decode_compressed(tf.io.read_file(file), "GZIP"), tf.uint8)
    return raw[header:]


def count_of_ps(config):
    return len(config["cluster"]["ps"])


class Training:
    """Variables and optimizer slots on the ps, the step, and an iterator on each worker."""

    def __init__(self, tf, strategy, coordinator, config):
        self.tf, self.coordinator, self.config = tf, coordinator, config
        self.job = job = config["job"]
        self.adam, self.adagrad = (job["optimizer"] == name for name in ("adam", "adagrad"))
        self.table = []  # its parts, one on each ps
        shapes = jobs.shapes(job)
        # Placed one ps after the other: kernels and biases apart, or one ps had all the kernels.
        order = sorted(range(len(shapes)), key=lambda i: i % 2)

        def place(make):
            made = {i: tf.Variable(make(shapes[i])) for i in order}
            return [made[i] for i in range(len(shapes))]

        def initial(shape):
            if len(shape) == 1:
                return tf.zeros(shape)
            size = 1
            for n in shape[:-2]:
                size *= n
            limit = (6 / (size * (shape[-2] + shape[-1]))) ** 0.5
            return tf.random.uniform(shape, -limit, limit)

        with strategy.scope():
            self.variables = place(initial)
            self.slots = [place(tf.zeros) for _ in range(2 if self.adam else 0)]
            if self.adagrad:
                self.slots = [place(lambda shape: tf.fill(shape, 0.1))]
            if "rows" in job:
                shape = (job["rows"], job["width"])
                self.lookup = tf.Variable(lambda: tf.random.uniform(shape, -0.05, 0.05))
                self.table = self.lookup.variables
                assert len(self.table) == count_of_ps(config)
                self.table_slots = tf.Variable(lambda: tf.fill(shape, 0.1)).variables
            count = count_of_ps(config)
            # Of each ps its own, so that no step sends them: beta1's and beta2's powers.
            self.powers = [[tf.Variable(beta) for _ in range(count)]
                           for beta in ((0.9, 0.999) if self.adam else ())]
            self.counters = place(lambda _: tf.constant(0, tf.int64))
        self.step = tf.function(self._step)
        self.counted_step = tf.function(self._counted_step)
        self.iterator = iter(coordinator.create_per_worker_dataset(self._dataset))

    def _dataset(self):
        tf, batch = self.tf, self.job["batch"]
        worker = tf.distribute.coordinator.experimental_get_current_worker_index()
        worker = tf.cast(worker, tf.float64)
        if "mnist" in self.job:
            x = tf.reshape(idx_gz(tf, self.job["mnist"][0], 16), (-1, 784))
            y = tf.cast(idx_gz(tf, self.job["mnist"][1], 8), tf.int64)
            order = tf.data.Dataset.range(60000).shuffle(60000).repeat().batch(batch)
            return order.map(lambda i: (tf.cast(tf.gather(x, i), tf.float32) / 255,
                                        tf.gather(y, i), worker)).prefetch(2)
        folder = self.config["folder"]

        def npy(name, kind, shape):
            raw = tf.strings.substr(tf.io.read_file(f"{folder}/{name}.npy"), jobs.NPY_HEADER, -1)
            return tf.reshape(tf.io.decode_raw(raw, kind), shape)
        if "rows" in self.job:
            x = npy("x", tf.int64, (-1, batch, self.job["ids"]))
        else:
            x = npy("x", tf.float32, (-1, batch, self.job.get("inputs", 784)))
        y = npy("y", tf.int64, (-1, batch))
        return tf.data.Dataset.from_tensor_slices((x, y)).repeat().map(
            lambda x, y: (x, y, worker)).prefetch(2)

    def forward(self, x):
        tf, v = self.tf, self.variables
        if self.table:
            x = tf.reshape(tf.nn.embedding_lookup(self.lookup, x), (-1, self.job["inputs"]))
        if self.job.get("cnn"):
            x = tf.reshape(x, (-1, 28, 28, 1))
            for k, b in ((0, 1), (2, 3)):
                x = tf.nn.relu(tf.nn.conv2d(x, v[k], 1, "SAME") + v[b])
                x = tf.nn.max_pool2d(x, 2, 2, "VALID")
            x, v = tf.reshape(x, (-1, 3136)), v[4:]
        for k in range(0, len(v) - 2, 2):
            x = tf.nn.relu(tf.matmul(x, v[k]) + v[k + 1])
        return tf.matmul(x, v[-2]) + v[-1]

    def _apply(self, i, gradient):
        tf, variable = self.tf, self.variables[i]
        with tf.device(variable.device):
            if self.adagrad:
                return tf.raw_ops.ResourceApplyAdagradV2(
                    var=variable.handle, accum=self.slots[0][i].handle, lr=0.001, epsilon=1e-7,
                    grad=gradient)
            if not self.adam:
                return tf.raw_ops.ResourceApplyGradientDescent(
                    var=variable.handle, alpha=0.01, delta=gradient)
            power = [next(p for p in beta if p.device == variable.device) for beta in self.powers]
            return tf.raw_ops.ResourceApplyAdam(
                var=variable.handle, m=self.slots[0][i].handle, v=self.slots[1][i].handle,
                beta1_power=power[0], beta2_power=power[1], lr=0.001, beta1=0.9, beta2=0.999,
                epsilon=1e-7, grad=gradient)

    def _apply_rows(self, part, gradient):
        tf, variable = self.tf, self.table[part]
        with tf.device(variable.device):
            return tf.raw_ops.ResourceSparseApplyAdagradV2(
                var=variable.handle, accum=self.table_slots[part].handle, lr=0.001, epsilon=1e-7,
                grad=gradient.values, indices=gradient.indices)

    def _train(self, iterator):
        tf = self.tf
        x, y, worker = next(iterator)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                y, self.forward(x)))
        gradients = tape.gradient(loss, [*self.variables, *self.table])
        applied = [self._apply(i, gradients[i]) for i in range(len(self.variables))]
        applied += [self._apply_rows(part, gradients[len(self.variables) + part])
                    for part in range(len(self.table))]
        for power, factor in zip(self.powers, (0.9, 0.999)):
            for one in power:
                with tf.device(one.device):
                    one.assign(one * factor)
        return loss, applied, worker

    def _step(self, iterator):
        return self._train(iterator)[0]

    def _counted_step(self, iterator):
        """Counts itself beside each variable; returns who did it and when all was applied."""
        tf = self.tf
        _, applied, worker = self._train(iterator)
        for counter, done in zip(self.counters, applied):
            with tf.control_dependencies([done]):
                counter.assign_add(1)
        with tf.control_dependencies(applied):
            return tf.stack([worker, tf.timestamp()])

    def counted(self):
        """How many times the variable was changed that was changed most."""
        return max(int(counter.numpy()) for counter in self.counters)

    def schedule(self, step, count):
        return [self.coordinator.schedule(step, args=(self.iterator,)) for _ in range(count)]

    def fetch(self, values):
        return [[float(x) for x in value] for value in self.coordinator.fetch(values)]


def measure_rate(training):
    job = training.job
    training.schedule(training.step, min(100, job["steps"] // 5))
    training.coordinator.join()
    begin = time.monotonic()
    training.schedule(training.step, job["steps"])
    training.coordinator.join()
    say(rate=job["steps"] * job["batch"] / (time.monotonic() - begin))


def train_until_told(training):
    """Steps in portions; says after each what was done, and at last what a ps has counted."""
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    done, portion = 0, 1
    say(before=training.counted())
    try:
        while not stop.is_set():
            values = training.schedule(training.counted_step, portion)
            training.coordinator.join()
            ends = training.fetch(values)
            done += portion
            say(done=done, ends=ends)
            portion = training.config["portion"]
        say(scheduled=done, counted=training.counted())
    except Exception as error:  # what it is belongs to the observation
        say(error=type(error).__name__, at=time.time())


def train_to_accuracy(training):
    tf, job = training.tf, training.job

    def test_data():
        x = tf.reshape(idx_gz(tf, job["mnist"][2], 16), (-1, 784))
        return tf.data.Dataset.from_tensors(
            (x, tf.cast(idx_gz(tf, job["mnist"][3], 8), tf.int64))).repeat()

    @tf.function
    def evaluate(iterator, part):
        x, y = next(iterator)
        x, y = x[part * 1000:(part + 1) * 1000], y[part * 1000:(part + 1) * 1000]
        guess = tf.argmax(training.forward(tf.cast(x, tf.float32) / 255), axis=1)
        return tf.reduce_sum(tf.cast(guess == y, tf.int32))

    test = iter(training.coordinator.create_per_worker_dataset(test_data))
    for epoch in range(1, jobs.EPOCHS_MAX + 1):
        training.schedule(training.step, 60000 // job["batch"])
        training.coordinator.join()
        right = [training.coordinator.schedule(evaluate, args=(test, tf.constant(part)))
                 for part in range(10)]
        training.coordinator.join()
        accuracy = sum(int(n) for n in training.coordinator.fetch(right)) / 10000
        say(epoch=epoch, accuracy=accuracy)
        if accuracy >= jobs.ACCURACY:
            return


def train_with_checkpoints(training):
    tf, folder = training.tf, training.config["folder"]
    checkpoint = tf.train.Checkpoint(variables=training.variables)
    training.schedule(training.step, 5)
    training.coordinator.join()
    values = training.schedule(training.counted_step, training.job["steps"])
    written = []
    while not training.coordinator.done():
        time.sleep(2)
        begin = time.time()
        checkpoint.write(f"{folder}/beside-{len(written)}")
        written.append([begin, time.time()])
    training.coordinator.join()
    ends = training.fetch(values)
    begin = time.monotonic()
    checkpoint.write(f"{folder}/alone")
    say(ends=ends, written=written, stopped=time.monotonic() - begin)


def measure_wire(tf, strategy, coordinator):
    def seconds(step, *args):
        """Of one step, in the middle of several."""
        taken = []
        for _ in range(8):
            begin = time.monotonic()
            coordinator.schedule(step, args=args)
            coordinator.join()
            taken.append(time.monotonic() - begin)
        return sorted(taken[2:])[2]

    def measure(label, size, chain):
        elements = size // 4
        with strategy.scope():
            variable = tf.Variable(tf.zeros([elements]))
        # Gradients that lie on the worker; each its own tensor for TensorFlow, so each is sent.
        gradients = iter(coordinator.create_per_worker_dataset(
            lambda: tf.data.Dataset.from_tensors((tf.fill([elements], 1e-6),) * chain).repeat()))

        @tf.function
        def pull():
            last = tf.constant(0.0)
            for _ in range(chain):  # one after the other
                with tf.control_dependencies([last]):
                    last = variable.read_value()[0]
            return last

        @tf.function
        def push(iterator):
            applied = []
            for gradient in next(iterator):
                with tf.control_dependencies(applied):
                    gradient = tf.identity(gradient)
                with tf.device(variable.device):
                    applied = [tf.raw_ops.ResourceApplyGradientDescent(
                        var=variable.handle, alpha=0.01, delta=gradient)]

        empty = seconds(tf.function(lambda: tf.constant(0.0)))
        say(size=label, pull=(seconds(pull) - empty) / chain,
            push=(seconds(push, gradients) - empty) / chain)

    for label, (size, chain) in jobs.WIRE.items():
        measure(label, size, chain)


def lead(config):
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(config["cluster"]), rpc_layer="grpc")
    # A table alone is so large that it is parted.
    parted = (config.get("job") or {}).get("rows")
    strategy = tf.distribute.ParameterServerStrategy(
        resolver, tf.distribute.experimental.partitioners.MinSizePartitioner(
            min_shard_bytes=8 << 20, max_shards=count_of_ps(config)) if parted else None)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    if config["what"] == "wire":
        # It takes several reads of a variable in one step for the same.
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        measure_wire(tf, strategy, coordinator)
    else:
        programs = {"rate": measure_rate, "run": train_until_told, "accuracy": train_to_accuracy,
                    "checkpoint": train_with_checkpoints}
        programs[config["what"]](Training(tf, strategy, coordinator, config))
    os._exit(0)


if __name__ == "__main__":
    ROLE, CONFIG = sys.argv[1], json.loads(sys.argv[3])
    if ROLE == "chief":
        lead(CONFIG)
    serve(ROLE, int(sys.argv[2]), CONFIG)

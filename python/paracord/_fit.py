"""`paracord.fit`: trains a model of a notebook on a cluster of processes on this machine."""

from __future__ import annotations

import atexit
import importlib
import json
import os
import re
import shutil
import sys
import tempfile
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from paracord import _fit_data
from paracord._fit_run import Training, TrainError, run
from paracord._files import save

PROGRAM = '''import base64
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import cloudpickle
import paracord
with open("model.txt") as file:
    made = cloudpickle.loads(base64.b64decode(file.read()))
paracord.serve(made())
'''


class History:
    """`history` has the training loss, and each metric of the test data as `val_NAME`, by epoch;
    `epoch` counts these from 0. `summary` is the job's, `dir` where all of it lies."""

    def __init__(self) -> None:
        self.history: Dict[str, List[float]] = {}
        self.epoch: List[int] = []
        self.params: Dict[str, Any] = {}
        self.summary: Dict[str, Any] = {}
        self.dir = ""


class Side:
    """What a library's models need; _fit_keras.py, _fit_torch.py and _fit_jax.py have one each."""

    library = ""
    inputs: Sequence[str] = ("",)  # the names of the model's inputs
    outputs: Sequence[str] = ("",)
    shapes: _fit_data.Shapes = {}  # of the inputs

    def job(self, folder: str, columns: Sequence[Optional[_fit_data.Columns]]) -> Dict[str, Any]:
        """Writes the model's files, and returns the job's keys of it."""
        raise NotImplementedError

    def as_program(self, folder: str, columns: Sequence[Optional[_fit_data.Columns]],
                   refused: str) -> Dict[str, Any]:
        """The same as a program of Python, where the job's own runtime has refused the model."""
        raise TrainError(refused)

    def start(self) -> Mapping[str, Any]:
        """The values that the model begins with, by name."""
        raise NotImplementedError

    def take(self, source: str) -> None:
        """Puts the values that a job's directory has into the model."""
        raise NotImplementedError

    def history(self) -> Any:
        return History()

    def result(self, history: Any) -> Any:
        return history


def write_program(folder: str, make: Callable[[], Any], **options: Any) -> Dict[str, Any]:
    """Writes the files of a program that `make` makes, and returns the job's keys of it."""
    import base64
    try:
        import cloudpickle
    except ImportError:
        raise TrainError("there is no cloudpickle, which carries the model to the workers: "
                         "pip install cloudpickle") from None
    with open(os.path.join(folder, "train.py"), "w") as file:
        file.write(PROGRAM)
    with open(os.path.join(folder, "model.txt"), "w") as file:
        file.write(base64.b64encode(cloudpickle.dumps(make)).decode())
    return {"model": {"program": "process", "command": [sys.executable, "train.py"],
                      "files": ["train.py", "model.txt"]}, **options}


def integers(columns: Sequence[Optional[_fit_data.Columns]]) -> Dict[str, Dict[str, str]]:
    """The `dtypes` of a program that gets whole numbers as such."""
    kinds = zip(("inputs", "targets", "weights"), columns)
    return {kind: {name: "int64" for name in each.integers()}
            for kind, each in kinds if each is not None and each.integers()}


def _side(model: Any, options: Dict[str, Any]) -> Side:
    """Which library the model is of: only one that is imported can have made it."""
    def of(name: str, kind: str) -> bool:
        there = sys.modules.get(name)
        found = there
        for part in kind.split("."):
            found = getattr(found, part, None)
        return found is not None and isinstance(model, found)  # type: ignore[arg-type]

    if of("keras", "Model"):
        library = "keras"
    elif of("torch", "nn.Module"):
        library = "torch"
    elif callable(model):
        library = "jax"
    else:
        raise TypeError(f"paracord.fit is given a {type(model).__name__}: it takes a Keras model, "
                        "a torch.nn.Module, or a JAX function (params, *columns) -> loss")
    side = importlib.import_module(f"paracord._fit_{library}")
    return side.Side(model, **options)  # type: ignore[no-any-return]


# How `paracord validate` refuses a layer or a loss that Keras may compute all the same. It guesses
# at another where the name is near one.
_NOT_SUPPORTED = re.compile(r" is not supported(?: \(did you mean .*\?\))?; ")


def fit(
    model: Any,
    x: Any = None,
    y: Any = None,
    *,
    loss: Any = None,
    optimizer: Any = None,
    params: Any = None,
    predict: Optional[Callable[..., Any]] = None,
    outputs: Optional[Sequence[Any]] = None,
    dtypes: Optional[Mapping[str, Mapping[str, str]]] = None,
    buffers: Sequence[str] = (),
    sample_weight: Any = None,
    validation_data: Optional[Sequence[Any]] = None,
    validation_split: float = 0.0,
    epochs: int = 1,
    batch_size: int = 32,
    shuffle: bool = True,
    seed: int = 0,
    ps: int = 1,
    workers: int = 1,
    dir: Optional[str] = None,
    fresh: bool = False,
    device: str = "auto",
    callbacks: Sequence[Any] = (),
    metrics: Optional[Sequence[Any]] = None,
    tables: Optional[Mapping[str, Any]] = None,
    verbose: Any = "auto",
    job: Optional[Mapping[str, Any]] = None,
) -> Any:
    """Trains a model by `paracord train` on this machine, and puts the trained values back into it.

    Of Keras `model` is a compiled model; of PyTorch a module, with `loss(output, target[, weight])`
    and an `optimizer` of torch.optim or a job's; of JAX a function (params, *columns) -> mean loss
    with `params` and a job's `optimizer`, for which (History, params) are returned. `outputs` are
    paracord.Output of what `predict` (of PyTorch the module) gives, for `metrics`.
    `x`, `y` and `sample_weight` are arrays, dicts or lists of arrays, or frames. `dtypes` says
    int64 of columns; where it is not given, whole numbers come as such to PyTorch and JAX.
    `buffers` names buffers of a module that a batch assigns.

    It starts from the model's values. `dir` has data, job and checkpoints, and the same call with
    the same `dir` goes on there, also with more `epochs`; without it they are in a temporary folder
    until this process ends. One worker and the same data give the same bits; several do not, since
    they train asynchronously. `job` has further keys of the job (docs/job.md). Ctrl-C takes a
    checkpoint, puts its values into the model and raises KeyboardInterrupt.
    """
    side = _side(model, {"loss": loss, "optimizer": optimizer, "params": params,
                         "predict": predict, "outputs": outputs, "dtypes": dtypes,
                         "buffers": buffers, "metrics": metrics, "tables": tables})
    more = dict(job or {})
    names = (("x", x, side.inputs), ("y", y, side.outputs),
             ("sample_weight", sample_weight, side.outputs))
    if x is None and "data" not in more:
        raise ValueError('give x and y, or files by job={"data": {"train": {...}}}')
    columns = [None if given is None else _fit_data.Columns(
        what, given, of, side.shapes if what == "x" else {}) for what, given, of in names]
    test = None
    if validation_data is not None:
        test = [None if given is None else _fit_data.Columns(
            f"validation {what}", given, of, side.shapes if what == "x" else {})
            for (what, _, of), given in zip(names, [*validation_data, None][:3])]
    for labels in (columns[1], test[1] if test is not None else None):
        if labels is not None:
            labels.refuse_texts()
    level = {"auto": 1}.get(verbose, verbose)
    folder = os.path.abspath(dir) if dir else tempfile.mkdtemp(prefix="paracord-fit-")
    os.makedirs(folder, exist_ok=True)
    if level:
        print(f"paracord.fit: {folder}", flush=True)
    settings: Dict[str, Any] = {
        "name": "fit", "batch": batch_size, "epochs": epochs, "shuffle": shuffle, "seed": seed,
        **_stopping(callbacks, folder, level)}
    if x is not None:
        settings["data"] = _fit_data.write(os.path.join(folder, "data"), columns, test,
                                           validation_split)
    grows = tables and all(isinstance(table, Mapping) for table in tables.values())
    if grows:
        settings["tables"] = dict(tables or {})
    if metrics is not None:
        settings["metrics"] = list(metrics)
    goes_on = not fresh and _has_checkpoint(folder)
    if not goes_on:
        save(os.path.join(folder, "start.safetensors"), side.start())
    settings["initial_weights"] = {"file": "start.safetensors", "partial": True} if grows \
        else "start.safetensors"
    old = _read(os.path.join(folder, "model.txt"))
    _write_job(folder, {**settings, **side.job(folder, columns), **more})
    validate = ["validate", "job.json", "--allow-programs", "--ps", str(ps)]
    refused = ""
    try:
        run(validate, folder)
    except TrainError as error:
        refused = str(error)
        if not _NOT_SUPPORTED.search(refused):
            raise
    if refused:
        if level:
            print(f"paracord.fit: {side.library} computes this model on the workers, since "
                  + refused.partition("; ")[0], flush=True)
        _write_job(folder, {**settings, **side.as_program(folder, columns, refused), **more})
        run(validate, folder)
    arguments = ["--ps", str(ps), "--workers", str(workers), "--device", device]
    arguments += ["--fresh"] if fresh else []
    # A pickle of the same model may be another text in another process.
    if goes_on and old != _read(os.path.join(folder, "model.txt")):
        arguments += ["--accept-change", "model.txt"]
    return _train(side, arguments, folder, dir, epochs, level)


def _train(side: Side, arguments: Sequence[str], folder: str, dir: Optional[str], epochs: int,
           level: int) -> Any:
    training = Training(arguments, folder, epochs, level)
    atexit.register(training.kill)
    code = training.wait()
    atexit.unregister(training.kill)
    if code and not training.interrupted:
        summary = training.summary
        if summary is not None:
            raise TrainError(f"{summary.get('status')}: {summary.get('reason')} ({folder}/run)",
                             code, summary)
        raise TrainError(training.errors(), code)
    if _has_checkpoint(folder):
        side.take(os.path.join(folder, "run"))
    if code:  # it left, and was not done before it was told to
        raise KeyboardInterrupt(f"training stopped; paracord.fit(..., dir={folder!r}) goes on")
    history = side.history()
    history.summary = training.summary or {}
    history.dir = folder
    history.params = {"epochs": epochs, "verbose": level}
    history.history = _by_epoch(training)
    history.epoch = list(range(len(next(iter(history.history.values()), []))))
    if dir is None:
        atexit.register(shutil.rmtree, folder, True)
    return side.result(history)


def _by_epoch(training: Training) -> Dict[str, List[float]]:
    """Losses and metrics of each epoch; NaN where nothing is known of it."""
    summary = training.summary or {}
    none = float("nan")
    rows: List[Dict[str, float]] = [{} for _ in range(int(summary.get("epochs", 0)))]
    for record in summary.get("history", []):
        if record["epoch"] <= len(rows):
            row = rows[record["epoch"] - 1]
            row.update(record.get("train") or {})
            row.update({f"val_{name}": value for name, value in
                        (record.get("test") or {}).items()})
    names = dict.fromkeys(name for row in rows for name in row)
    found = {name: [row.get(name) for row in rows] for name in names}
    return {name: [none if value is None else value for value in values]
            for name, values in found.items()}


def _stopping(callbacks: Sequence[Any], folder: str, level: int) -> Dict[str, Any]:
    """What Keras' callbacks say, as keys of the job."""
    stop: Dict[str, Any] = {}
    for callback in callbacks:
        name = type(callback).__name__
        if name in ("EarlyStopping", "ModelCheckpoint"):
            if not callback.monitor.startswith("val_"):
                raise ValueError(f"{name}: monitor={callback.monitor!r}: only what the validation "
                                 'data give can be watched, as "val_loss"')
            if stop.setdefault("metric", callback.monitor[4:]) != callback.monitor[4:]:
                raise ValueError(f"{name}: callbacks watch two metrics, and a job watches one")
        if name == "EarlyStopping":
            stop.update(patience=max(1, callback.patience), min_delta=abs(callback.min_delta))
            if callback.mode in ("min", "max"):
                stop["mode"] = callback.mode
            if callback.restore_best_weights:
                stop["restore_best"] = True
        elif name == "ModelCheckpoint" and callback.save_best_only:
            stop["restore_best"] = True
        elif name == "TensorBoard" and level:
            print(f"paracord.fit: the charts are in {folder}/run/tensorboard", flush=True)
        elif name in ("LearningRateScheduler", "ReduceLROnPlateau"):
            raise ValueError(f"{name}: the ps have the learning rate; give the optimizer a "
                             "keras.optimizers.schedules one (docs/optimizers.md)")
        elif name not in ("TensorBoard", "TerminateOnNaN"):
            raise ValueError(f"{name}: workers run no callbacks; EarlyStopping, ModelCheckpoint("
                             "save_best_only=True), TerminateOnNaN and TensorBoard are understood")
    return {"stop_when": stop} if stop else {}


def _has_checkpoint(folder: str) -> bool:
    place = os.path.join(folder, "run", "checkpoints")
    return os.path.isdir(place) and any(
        os.path.exists(os.path.join(place, name, "MANIFEST.json")) for name in os.listdir(place))


def _read(path: str) -> Optional[str]:
    if not os.path.exists(path):
        return None
    with open(path) as file:
        return file.read()


def _write_job(folder: str, job: Mapping[str, Any]) -> None:
    with open(os.path.join(folder, "job.json"), "w") as file:
        json.dump(job, file, indent=1)

#!/usr/bin/env python3
"""Writes CASES.keras3.json (or, with --keras2, CASES.keras2.json) for each CASES_cases.py:
compiled models of any shape with Keras' own
numbers: outputs, the loss in training mode, its gradients, the variables after three steps of SGD,
and the scores of an evaluation. Loss and metrics are in their compile_config (Keras 3), or beside
them (Keras 2, which does not write them). As make_models.py, but for any inputs and outputs:

  /tmp/golden/bin/python tests/golden/make_graphs.py
  /tmp/golden/bin/python tests/golden/make_graphs.py --keras2
  /tmp/golden/bin/python tests/golden/make_graphs.py NAME...   # these cases alone anew
"""
import json
import os
import sys

import numpy as np

from batch_cases import CASES as BATCH_CASES
from call_cases import CASES as CALL_CASES
from constant_cases import CASES as CONSTANT_CASES
from edge_cases import CASES as EDGE_CASES
from graph_cases import CASES
from image_cases import CASES as IMAGE_CASES
from operation_cases import CASES as OPERATION_CASES
from recommender_cases import CASES as RECOMMENDER_CASES
from oracle import KERAS2, keras, tf
from sequence_cases import CASES as SEQUENCE_CASES
from size_cases import CASES as SIZE_CASES

RATE = 0.125
ONLY = [a for a in sys.argv[1:] if not a.startswith("--")]


def rounded(rng, shape, scale=1.0):
    return (np.round(rng.uniform(-scale, scale, shape) * 256) / 256).astype("float32")


def listed(array):
    return [float(f"{v:.8g}") for v in np.asarray(array, dtype="float64").ravel()]


def column(array):
    return {"shape": list(array.shape[1:]), "values": listed(array)}


def paths(model, prefix=""):
    """[inner model/]layer/variable of each variable, by its identity."""
    found = {}
    for layer in model.layers:
        if hasattr(layer, "layers"):
            found.update(paths(layer, prefix + layer.name + "/"))
            continue
        inner = getattr(layer, "layer", None)
        if hasattr(inner, "layers"):  # TimeDistributed
            own = "" if KERAS2 else inner.name + "/"
            found.update(paths(inner, prefix + layer.name + "/" + own))
            continue
        if type(layer).__name__ == "FeatureCross":  # by the names of its attributes
            for part in ("down_proj_dense", "dense"):
                for v in getattr(layer, part).variables if hasattr(layer, part) else []:
                    tail = v.path.split("/")[-1]
                    found[id(v)] = f"{prefix}{layer.name}/{part}/{tail}"
            continue
        for v in layer.variables:
            path = v.name.split(":")[0] if KERAS2 else v.path
            tail = path.split(layer.name + "/", 1)[-1]
            tail = "gamma" if tail.startswith("variable") else tail  # a LayerScale's
            found[id(v)] = prefix + layer.name + "/" + tail
    return found


def path_of(model, variable):
    return paths(model)[id(variable)]


def kept(variable):
    return "seed" not in variable.name


def first_step(model, x, y, weight):
    """Loss and gradients in training mode."""
    with tf.GradientTape() as tape:
        out = model(x, training=True)
        if KERAS2:
            value = model.compiled_loss(tf.nest.map_structure(tf.constant, y), out,
                                        sample_weight=weight,
                                        regularization_losses=model.losses)
        else:
            value = model.compute_loss(x, y, out, weight, training=True)
    grads = tape.gradient(value, [v if KERAS2 else v.value for v in model.trainable_variables])
    return float(value), [tf.convert_to_tensor(g).numpy() for g in grads]


def run(name, build):
    keras.backend.clear_session()
    rng = np.random.default_rng(sum(map(ord, name)))
    spec = build(keras, KERAS2, rng)
    if spec is None:
        return None
    model, x, y = spec["model"], spec["x"], spec["y"]
    weight, class_weight = spec.get("weight"), spec.get("class_weight")
    in_training = weight
    if class_weight:  # as fit() does it
        from keras.src.trainers.data_adapters.data_adapter_utils import (
            class_weight_to_sample_weights)
        in_training = np.asarray(class_weight_to_sample_weights(y, class_weight))
    scale = spec.get("scale", 1.0)
    model.set_weights([w if "int" in str(w.dtype) else
                       rounded(rng, w.shape, scale) if "moving_variance" not in v.name
                       and "variance" not in v.name else 0.5 + np.abs(rounded(rng, w.shape))
                       for v, w in zip(model.weights, model.get_weights())])
    model.compile(optimizer=keras.optimizers.SGD(RATE), loss=spec["loss"],
                  loss_weights=spec.get("loss_weights"), metrics=spec.get("metrics"),
                  weighted_metrics=spec.get("weighted_metrics"), run_eagerly=True)
    start = {path_of(model, v): listed(v) for v in model.variables if kept(v)}
    before = model.get_weights()
    scores = model.evaluate(x, y, sample_weight=weight, verbose=0, return_dict=True)
    outputs = model.predict(x, verbose=0)
    names = list(outputs) if isinstance(outputs, dict) else list(
        getattr(model, "output_names", None) or [model.layers[-1].name])
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    elif not isinstance(outputs, (list, tuple)):
        outputs = [outputs]
    value, grads = first_step(model, x, y, in_training)
    result = {"name": name, "model": json.loads(model.to_json()), "rate": RATE,
              "outputs": [column(np.asarray(o)) for o in outputs], "loss_value": value,
              "scores": {k: float(v) for k, v in scores.items() if np.ndim(v) == 0},
              "weights": start,
              "gradients": {path_of(model, v): listed(g)
                            for v, g in zip(model.trainable_variables, grads)}}
    model.set_weights(before)  # moving statistics have moved
    for _ in range(3):
        model.train_on_batch(x, y, sample_weight=weight,
                             **({"class_weight": class_weight} if class_weight else {}))
    result["after"] = {path_of(model, v): listed(v) for v in model.variables if kept(v)}
    model.set_weights(before)
    if KERAS2 or "loss_name" in spec:  # what the model's file does not say
        result["compile"] = {"loss": spec.get("loss_name", spec["loss"]),
                             "loss_weights": spec.get("loss_weights"),
                             "metrics": spec.get("metrics_name", spec.get("metrics"))}
    if "inputs" in spec:  # x in the form that we take it
        x = spec["inputs"]
    ins = x if isinstance(x, dict) else {model.inputs[0].name.split(":")[0]: x}
    result["inputs"] = {k: column(v) for k, v in ins.items()}
    ys = y if isinstance(y, (dict, list)) else [y]
    result["targets"] = ({k: column(np.asarray(v, dtype="float32")) for k, v in ys.items()}
                         if isinstance(ys, dict) else
                         {n: column(np.asarray(v, dtype="float32")) for n, v in zip(names, ys)})
    if "tolerance" in spec:
        result["tolerance"] = spec["tolerance"]
    if weight is not None:
        result["sample_weight"] = column(np.asarray(weight, dtype="float32"))
    if class_weight:
        result["class_weight"] = class_weight
    result["examples"] = int(next(iter(ins.values())).shape[0])
    print(f"{name}: loss {value:.6f}", flush=True)
    return result


def write(cases, name):
    """True if all of the file's cases could be computed."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    results, good = [], True
    for case_name, case_build in cases.items():
        if ONLY and case_name not in ONLY:
            continue
        try:
            result = run(case_name, case_build)
        except Exception as error:  # say all that fail, then fail
            print(f"{case_name}: {type(error).__name__}: {error}"[:400], flush=True)
            good = False
            continue
        if result is not None:
            results.append(result)
    if ONLY and os.path.exists(path):  # these alone anew, the others as they are
        with open(path) as before:
            results = [r for r in json.load(before) if r["name"] not in ONLY] + results
    with open(path, "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in results)
                  + "\n]\n")
    return good


ALL = {"graph": CASES, "sequence": SEQUENCE_CASES, "batch": BATCH_CASES, "call": CALL_CASES,
       "constant": CONSTANT_CASES, "image": IMAGE_CASES, "operation": OPERATION_CASES,
       "recommender": RECOMMENDER_CASES, "size": SIZE_CASES}
if not KERAS2:
    ALL["edge"] = EDGE_CASES
VERSION = "keras2" if KERAS2 else "keras3"
good = [write(cases, f"{name}.{VERSION}.json") for name, cases in ALL.items()
        if not ONLY or any(wanted in cases for wanted in ONLY)]
sys.exit(0 if all(good) else 1)

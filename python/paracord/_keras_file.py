"""Takes apart what Keras saved, by Keras itself, for files that `paracord` does not read:

    python3 -m paracord.convert model.keras FOLDER/

writes FOLDER/model.json, with the vocabularies that adapt() learned, and
FOLDER/weights.safetensors, and prints the job's entries for them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy

from paracord._arguments import ProgramError
from paracord._files import save
from paracord._load_into import paths_of

_LOOKUPS = ("StringLookup", "IntegerLookup", "TextVectorization")
_BACKENDS = ("tensorflow", "jax", "torch")  # layers of strings need the first


def add_vocabularies(model: Any, spec: Any) -> None:
    """Writes what adapt() learned into a model's config, where Keras leaves it out."""
    layers = {layer.name: layer for layer in model._flatten_layers()}

    def walk(value: Any) -> None:
        if isinstance(value, list):
            for each in value:
                walk(each)
        elif isinstance(value, dict):
            config: Any = value.get("config")
            if value.get("class_name") in _LOOKUPS and not config.get("vocabulary"):
                words = layers[config["name"]].get_vocabulary(include_special_tokens=False)
                config["vocabulary"] = [
                    word if isinstance(word, str) else int(word) for word in words]
            for each in value.values():
                walk(each)

    walk(spec)


def convert(model: Any, folder: str, *,
            custom_objects: Optional[Mapping[str, Any]] = None) -> Dict[str, str]:
    """Writes a Keras model, or the file of one, as model.json and weights.safetensors into
    `folder`. Returns the job's entries for them."""
    if isinstance(model, (str, os.PathLike)):
        model = _load(os.fspath(model), custom_objects)
    if not hasattr(model, "to_json") or not getattr(model, "built", False):
        raise ProgramError("the model is no Keras model, or is not built: give it an Input, or "
                           "call model.build")
    spec = json.loads(model.to_json())
    add_vocabularies(model, spec)
    weights = {path[1:]: numpy.asarray(variable) for variable, path in paths_of(model)
               if "seed_generator" not in path}
    os.makedirs(folder, exist_ok=True)
    entries = {"model": os.path.join(folder, "model.json"),
               "initial_weights": os.path.join(folder, "weights.safetensors")}
    with open(entries["model"], "w", encoding="utf-8") as file:
        json.dump(spec, file)
        file.write("\n")
    if not weights:
        del entries["initial_weights"]
    else:
        save(entries["initial_weights"], weights)
    return entries


def choose_backend() -> None:
    """Has Keras, which is not imported yet, compute with a backend that is installed."""
    found: List[str] = [name for name in _BACKENDS if importlib.util.find_spec(name) is not None]
    if found:
        os.environ.setdefault("KERAS_BACKEND", found[0])


def _load(path: str, custom_objects: Optional[Mapping[str, Any]]) -> Any:
    if path.endswith(".weights.h5"):
        raise ProgramError(f"{path}: holds weights and no model: build the model, call "
                           "model.load_weights of it, and give the model to "
                           "paracord.keras.convert")
    choose_backend()
    try:
        import keras
    except ImportError as error:
        raise ProgramError(f"Keras is needed to read {path}: {error}") from error
    try:
        return keras.saving.load_model(path, custom_objects=custom_objects)
    except Exception as error:  # of whatever layer
        raise ProgramError(f"{path}: this Keras does not load it: {error}; where it has layers of "
                           "your own, load it in Python with custom_objects, and give the model to "
                           "paracord.keras.convert") from error


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m paracord.convert",
        description="Writes the model and the weights of a file of Keras apart.")
    parser.add_argument("file", metavar="FILE", help="model.keras, or an .h5 of a whole model")
    parser.add_argument("folder", metavar="FOLDER", help="where model.json and the weights go")
    given = parser.parse_args(arguments)
    try:
        entries = convert(given.file, given.folder)
    except (ProgramError, OSError) as error:
        print(f"paracord.convert: {error}", file=sys.stderr)
        return 2
    print(json.dumps(entries, indent=2))
    return 0

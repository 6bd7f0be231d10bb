"""python -m paracord.export: a checkpoint as a file of Keras, model.keras or model.weights.h5."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Mapping, Optional, Sequence

from paracord._arguments import ProgramError
from paracord._files import job_of
from paracord._keras_file import choose_backend
from paracord._load_into import load_into


def _build(keras: Any, spec: Mapping[str, Any]) -> Any:
    """A model of Keras' JSON, also of Keras 2's or a person's, which lacks Keras 3's `module`."""
    classes = {"Sequential": keras.Sequential, "Functional": keras.Model, "Model": keras.Model}
    if "module" not in spec and spec["class_name"] in classes:
        return classes[spec["class_name"]].from_config(spec["config"])
    return keras.models.model_from_json(json.dumps(spec))


def export(directory: str, out: str, *, tables: str = "refuse") -> None:
    """Builds the Keras model of a job's checkpoint, sets its variables and saves it as `out`."""
    if not out.endswith((".keras", ".weights.h5")):
        raise ProgramError(f"{out} is no .keras and no .weights.h5: `paracord export` writes "
                           "safetensors, and ONNX is not written")
    model = job_of(directory)["model"]
    if not isinstance(model, dict) or "class_name" not in model:
        raise ProgramError(f"{directory}: its model is a program, which Keras' files do not hold: "
                           "`paracord export` writes its variables as safetensors")
    choose_backend()
    try:
        import keras
    except ImportError as error:
        raise ProgramError(f"Keras is needed to write {out}: {error}") from error
    try:
        built = _build(keras, model)
    except Exception as error:  # of whatever layer
        raise ProgramError(f"this Keras does not build the model: {error}; build it yourself, and "
                           "paracord.load_into(model, directory) sets its variables") from error
    load_into(built, directory, tables=tables)
    if out.endswith(".keras"):
        built.save(out)
    else:
        built.save_weights(out)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m paracord.export", description=__doc__)
    parser.add_argument("--dir", required=True, help="the job's directory, or a checkpoint's")
    parser.add_argument("--out", required=True, help="model.keras or model.weights.h5")
    parser.add_argument("--skip-tables", action="store_true",
                        help="leave growing tables out, which no file of Keras holds")
    given = parser.parse_args(arguments)
    try:
        export(given.dir, given.out, tables="skip" if given.skip_tables else "refuse")
    except ProgramError as error:
        print(f"paracord.export: {error}", file=sys.stderr)
        return 2
    print(given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())

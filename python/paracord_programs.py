"""The commands `paracord`, `paracord-ps` and so on of a wheel that has the programs. This module
imports nothing of the package: the programs do not need NumPy."""

from __future__ import annotations

import os
import sys

_OWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "paracord", "_programs", "bin")


def find(name: str) -> str:
    """The file of a program: that of this wheel, or else the first on PATH that is no script, as
    these commands are themselves. "" if there is none."""
    for place in [_OWN, *os.environ.get("PATH", os.defpath).split(os.pathsep)]:
        path = os.path.join(place, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            with open(path, "rb") as file:
                if file.read(2) != b"#!":
                    return path
    return ""


def missing(name: str) -> str:
    """What to do where there is no such program."""
    return (f"{name}: this package was installed without the programs, and PATH has none: install "
            "the wheel that has them, or the Debian package, or build them (docs/install.md)")


def main() -> None:
    """Becomes the program of the command's name."""
    name = os.path.basename(sys.argv[0])
    program = find(name)
    if not program:
        sys.exit(missing(name))
    os.execv(program, [program, *sys.argv[1:]])

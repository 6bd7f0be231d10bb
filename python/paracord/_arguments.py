"""Checks of what a user gives: errors name the argument, what it is, and what it has to be."""

from __future__ import annotations

import difflib
import fnmatch
import numbers
import operator
from typing import Any, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

Initializer = Union[str, Mapping[str, Any]]
# {"inputs": {"user": "int64"}}, with targets and weights; other columns are float32.
Dtypes = Mapping[str, Mapping[str, str]]

KINDS = ("inputs", "targets", "weights")
_DTYPES = ("float32", "int32", "int64")


class ProgramError(Exception):
    """The program or its batch is wrong; the message is for the user."""


def shape_of(what: str, shape: Any) -> Tuple[int, ...]:
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        sizes = (-1,)
    if any(size < 0 for size in sizes):
        raise ProgramError(f"{what} has the shape {shape!r}: give a tuple of sizes, as in (784, 10)"
                           ", (10,), or () for one number")
    return sizes


def check_initializer(what: str, initializer: Any) -> None:
    named = isinstance(initializer, Mapping) and isinstance(initializer.get("name"), str)
    if not named and not isinstance(initializer, str):
        raise ProgramError(f'{what} has the initializer {initializer!r}: give a name, as in "zeros"'
                           ', or a dict, as in {"name": "random_normal", "stddev": 0.02}')


def only_size(batch: Optional[int]) -> List[int]:
    """A program's `batches`, of the only size that it computes, if there is one."""
    if batch is None:
        return []
    if isinstance(batch, bool) or not isinstance(batch, numbers.Integral) or batch < 1:
        raise ProgramError(f"batch is {batch!r}, and must be a number of examples, or left out")
    return [int(batch)]


def nearest(name: str, names: Iterable[str]) -> str:
    """What a name is like, or which there are, for the end of an error."""
    there = list(names)
    like = difflib.get_close_matches(name, there, 1)
    if like:
        return f"did you mean {like[0]!r}?"
    return "there are " + ", ".join(map(repr, there[:8])) + (", ..." if len(there) > 8 else "")


def checked_initial(initial: Optional[Mapping[str, Initializer]]) -> Mapping[str, Initializer]:
    if not isinstance(initial or {}, Mapping):
        raise ProgramError(f"initial is {initial!r}: give a dict of initializers by the names of "
                           'variables, or by patterns, as in {"*/kernel": "glorot_uniform"}')
    for name, initializer in (initial or {}).items():
        check_initializer(f"initial: {name}", initializer)
    return initial or {}


def initial_of(name: str, initial: Mapping[str, Initializer]) -> Optional[Initializer]:
    """What `initial` says of a variable by its name, or by the first pattern that has it."""
    if name in initial:
        return initial[name]
    for pattern, initializer in initial.items():
        if fnmatch.fnmatchcase(name, pattern):
            return initializer
    return None


def check_named(initial: Mapping[str, Initializer], names: Sequence[str]) -> None:
    """Refuses names (patterns may have nothing) of `initial` that no variable has."""
    for name in initial:
        if name not in names and not any(sign in name for sign in "*?["):
            raise ProgramError(f"initial names {name!r}, which is no variable; "
                               + nearest(name, names))


def checked_dtypes(dtypes: Optional[Dtypes]) -> Dtypes:
    for kind, columns in (dtypes or {}).items():
        wrong = kind not in KINDS or not isinstance(columns, Mapping) or any(
            dtype not in _DTYPES for dtype in columns.values())
        if wrong:
            raise ProgramError(
                f"dtypes has {{{kind!r}: {columns!r}}}: it says int64 of columns of inputs, "
                'targets or weights by their names ("" where there is one), as in '
                '{"inputs": {"user": "int64"}, "targets": {"": "int64"}}')
    return dtypes or {}

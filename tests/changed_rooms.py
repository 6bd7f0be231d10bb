#!/usr/bin/env python3
"""Prints which test programs a change concerns, a name a line: those of the rooms that changed and
of the rooms that stand on these (tests/rooms), or `all`. `documents` are the commands of README and
of the first page, which e2e_test runs.

usage: tests/changed_rooms.py REF

The change is what differs between REF and the working tree, with files that git does not know yet.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# The test programs of a room, where they are not <room>_test alone.
PROGRAMS = {
    "net/grpc": ["grpc"],
    "coordinator/core": ["coordinator", "sim"],
    "coordinator": ["coordinator", "sim"],
    "server": ["server", "sim"],
    "worker": ["worker", "sim"],
    "tensor": ["tensor", "cuda_host"],
    "keras": ["keras", "cuda_host", "steady"],
    "cli": ["cli", "deploy", "python"],
    "program": ["program", "python"],
    "proto": [],
    "main": [],
    "bench": [],  # its tests run every benchmark, which is the whole run's
}
# What changes the build, or what all tests share, concerns all of them.
ALL = ("CMakeLists.txt", "CMakePresets.json", "cmake/", "tests/CMakeLists.txt", "tests/main.cc",
       "tests/catch3/", "proto/")
OUTSIDE = {"deploy": ["deploy"], "python": ["python"], "examples": ["cli", "python", "documents"],
           "tests/golden": ["keras", "cuda_host"], "tests/fake_plugin": ["tensor"],
           "tests/fake_pjrt": ["program"], "tests/plugins": ["python", "plugins"],
           "tests/gpu": ["cuda_host"], "tests/odd_storage": ["e2e"], "tests/fuzz": []}


def read_rooms():
    """Returns {room: the rooms that it stands on}."""
    rooms = {}
    for line in (ROOT / "tests/rooms").read_text().splitlines():
        if line and not line.startswith("#"):
            room, below = line.split(":")
            rooms[room] = below.split()
    return rooms


def with_those_above(room, rooms):
    """Returns the room and all rooms that stand on it, directly or through others."""
    found = {room}
    for above, below in rooms.items():
        if room in below:
            found |= with_those_above(above, rooms)
    return found


def changed_files(ref):
    def git(*arguments):
        answer = subprocess.run(["git", "-C", str(ROOT), *arguments], check=True,
                                capture_output=True, text=True)
        return [name for name in answer.stdout.split("\0") if name]
    # A file that was moved concerns both its places.
    return (git("diff", "--name-only", "--no-renames", "-z", ref, "--") +
            git("ls-files", "--others", "--exclude-standard", "-z"))


def including(path):
    """Returns the test programs that include a header of tests/, directly or through others, or the
    header whose functions a .cc file of tests/ has."""
    included = {}  # {header: the files that include it}
    for file in [*(ROOT / "tests").rglob("*.cc"), *(ROOT / "tests").rglob("*.h")]:
        for name in re.findall(r'^#include "(?:tests/)?(\w+/[\w/]+\.h)"', file.read_text(), re.M):
            included.setdefault(name, set()).add(str(file.relative_to(ROOT / "tests")))
    found, new = set(), {re.sub(r"\.cc$", ".h", path.removeprefix("tests/"))}
    while new:
        found |= new
        new = {file for header in new for file in included.get(header, ())} - found
    return sorted({file.split("/")[0] for file in found if "/" in file})


def programs_of(path, rooms):
    """Returns the test programs that a changed file concerns; None for all of them."""
    if path.startswith(ALL) or (path.startswith("tests/") and path.count("/") == 1
                                and path.endswith(".h")):
        return None
    for place, programs in OUTSIDE.items():
        if path.startswith(place + "/"):
            return programs
    if path.startswith("tests/"):
        # The tests of models run on the CUDA engine, too.
        also = ["cuda_host"] if path.startswith("tests/keras/") else []
        return [path.split("/")[1], *including(path), *also] if path.count("/") > 1 else []
    if path.endswith(".md"):
        return ["python", "documents"] if re.match(r"README\.md$|docs/", path) else []
    inside = [room for room in rooms if path.startswith(room + "/")]
    if not inside:
        return []
    room = "main" if path.endswith(("_main.cc", "_main.h")) else max(inside, key=len)
    return [program for above in with_those_above(room, rooms)
            for program in PROGRAMS.get(above, [above])]


def main():
    rooms = read_rooms()
    programs = {"common"}  # with the rules of the tree
    for path in changed_files(sys.argv[1]):
        concerned = programs_of(path, rooms)
        if concerned is None:
            print("all")
            return
        programs.update(concerned)
    build = (ROOT / "tests/CMakeLists.txt").read_text()
    known = set(re.findall(r"^ *paracord_test\((\w+)", build, re.M))
    unknown = programs - known - {"python", "plugins", "documents"}
    if unknown:
        sys.exit(f"tests/changed_rooms.py: no test program is called {', '.join(sorted(unknown))}")
    print("\n".join(sorted(programs)))


if __name__ == "__main__":
    main()

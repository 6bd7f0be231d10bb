#!/usr/bin/env python3
"""Prints what failed in a ctest run: of each process the failed checks and reports, and its end.

usage: tests/show_failures.py RESULTS.xml

RESULTS.xml is what ctest --output-junit wrote; it has the whole output of every process.
"""
import re
import sys
import xml.etree.ElementTree as tree

# The lines with which Catch2, the sanitizers, unittest and Python say that something is wrong.
WRONG = re.compile(r": FAILED:|^(FAIL|ERROR): |(ERROR|WARNING): \w+Sanitizer|: runtime error: |"
                   r"^Traceback |^terminate called")
BEFORE, AFTER = 8, 24  # lines shown around each of them
MOST = 100  # lines shown of a process before its end
LAST = 10


def problem_of(process):
    """Returns why a process counts as failed, or None."""
    failure, skipped = process.find("failure"), process.find("skipped")
    if failure is not None:
        return failure.get("message") or f"failed after {float(process.get('time', 0)):.1f} s"
    # Of a program that was not built ctest says that it was skipped.
    if skipped is not None and "SKIP" not in skipped.get("message", ""):
        return skipped.get("message")
    return None


def excerpts(output):
    """Returns the lines around those that say that something is wrong, and the last lines."""
    lines = [line[:400] for line in output.splitlines()]
    around = set()
    for i, line in enumerate(lines):
        if WRONG.search(line):
            around.update(range(max(0, i - BEFORE), min(len(lines), i + AFTER)))
    chosen = sorted(around)[:MOST]
    chosen += [i for i in range(max(0, len(lines) - LAST), len(lines)) if i not in chosen]
    shown, before = [], -1
    for i in chosen:
        if i > before + 1:
            shown.append(f"... {i - before - 1} lines left out")
        shown.append(lines[i])
        before = i
    return shown


def report(root):
    lines = []
    for process in root.iter("testcase"):
        if problem := problem_of(process):
            lines.append(f"-- {process.get('name')}: {problem}")
            lines += excerpts(process.findtext("system-out") or "")
    return lines


if __name__ == "__main__":
    print("\n".join(report(tree.parse(sys.argv[1]).getroot())))

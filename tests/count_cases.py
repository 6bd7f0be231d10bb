#!/usr/bin/env python3
"""Prints how many test cases of a ctest run passed, in the form of ctest's own last line.

usage: tests/count_cases.py RESULTS.xml

ctest counts processes, most of which run hundreds of cases: this adds up what each program says of
its cases. A process that says nothing of cases is one. RESULTS.xml is what ctest --output-junit
wrote. The exit status is 1 if a case failed or none ran.
"""
import re
import sys
import xml.etree.ElementTree as tree

ALL_PASSED = re.compile(r"^All tests passed \(.* in (\d+) test cases?\)", re.M)
SOME_FAILED = re.compile(r"^test cases: +(\d+) \|(.*)$", re.M)
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n\n(.*)$", re.M)


def cases_of(process):
    """Returns (cases that ran, cases that failed) of one process of the run."""
    failed = process.find("failure") is not None
    output = process.findtext("system-out") or ""
    if passed := ALL_PASSED.search(output):
        return int(passed[1]), int(failed)  # a program may fail after its last case
    if some := SOME_FAILED.search(output):
        wrong = re.search(r"(\d+) failed(?: \||$)", some[2])
        left_out = re.search(r"(\d+) skipped", some[2])
        ran = int(some[1]) - int(left_out[1] if left_out else 0)
        return ran, max(int(wrong[1]) if wrong else 0, int(failed))
    if python := UNITTEST.search(output):
        left_out = re.search(r"skipped=(\d+)", python[2])
        wrong = sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", python[2])))
        return int(python[1]) - int(left_out[1] if left_out else 0), max(wrong, int(failed))
    skipped = process.find("skipped")
    if skipped is not None and "SKIP" not in skipped.get("message", ""):
        return 1, 1  # its program is not there
    if process.get("status") == "disabled" or skipped is not None:
        return 0, 0
    if not failed and "No tests ran" in output:  # fewer cases than cores
        return 0, 0
    return 1, int(failed)


def main():
    counts = [cases_of(each) for each in tree.parse(sys.argv[1]).iter("testcase")]
    ran, failed = (sum(column) for column in zip(*counts)) if counts else (0, 0)
    percent = 100 * (ran - failed) // max(ran, 1)
    print(f"{percent}% tests passed, {failed} tests failed out of {ran}")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())

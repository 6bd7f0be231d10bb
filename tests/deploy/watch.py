#!/usr/bin/env python3
"""Watches a job from outside, for deploy/kubernetes/check.

watch.py PROGRAM ADDRESS FLAG...
                                prints a line "TIME COUNT" for each answer of the coordinator at
                                ADDRESS; the count grows with every batch that is applied. The
                                flags are those of `paracord status`
watch.py --trains FILE          0 if it has grown within the last 3 seconds
watch.py --again FILE TIME      0 if it has grown after a fault at TIME and still does; says how
                                long that took
"""
import json
import subprocess
import sys
import time

STILL_S = 2.0  # so long it has to have gone on growing


def count(status):
    return status["batches_done"] + status["applied_min"] + status["applied_max"]


def watch(program, address, flags):
    while True:
        asked = subprocess.run([program, "status", "--address", address, "--json", *flags],
                               capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            print(f"{time.time():.3f} {count(json.loads(asked.stdout))}", flush=True)
        time.sleep(0.1)


def growths(path, since):
    """The times after `since` at which the count had grown."""
    with open(path, encoding="utf-8") as lines:
        seen = [(float(t), int(c)) for t, c in (line.split() for line in lines)]
    times = []
    before = None
    for at, value in seen:
        if at >= since and before is not None and value > before:
            times.append(at)
        before = value
    return times


def main():
    if sys.argv[1] == "--trains":
        return 0 if growths(sys.argv[2], time.time() - 3) else 1
    if sys.argv[1] == "--again":
        since = float(sys.argv[3])
        times = growths(sys.argv[2], since)
        # What still grew when the fault had not come through is no recovery.
        if not times or times[-1] - since < STILL_S or time.time() - times[-1] > STILL_S:
            return 1
        still, end = max((after - at, after) for at, after in zip([since] + times, times))
        after = end - since
        print(f"no batch was applied for {still:.1f} s, the next {after:.1f} s after the fault")
        return 0
    watch(sys.argv[1], sys.argv[2], sys.argv[3:])
    return 0


sys.exit(main())

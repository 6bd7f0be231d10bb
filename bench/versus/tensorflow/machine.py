"""What is measured alike on both sides."""
import statistics


def resident_mb(pid):
    """Pages that it shares with others count in each of them."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) * 1024 / 1e6


def steps(ends):
    """(begin, end) of the steps of one worker, by the ends of all."""
    ends = sorted(ends)
    return list(zip(ends, ends[1:]))


def beside(all_steps, windows):
    """How long checkpoints take, and the longest step that meets one beside the usual step."""
    lengths = {True: [], False: []}
    for begin, end in all_steps:
        meets = any(begin < window[1] and window[0] < end for window in windows)
        lengths[meets].append((end - begin) * 1e3)
    usual = statistics.median(lengths[False])
    return {"checkpoint": statistics.median(b - a for a, b in windows), "usual": usual,
            "over": max(lengths[True]) - usual, "over without": max(lengths[False]) - usual}

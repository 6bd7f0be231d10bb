"""What is measured alike on both sides."""
import statistics


def memory_mb(pid):
    """Resident, where pages that processes share count in each of them, and in shares, where each
    counts its part of them."""
    kinds = {"Rss:": "", "Pss:": " in shares"}
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as f:
        lines = [line.split() for line in f]
    return {kinds[line[0]]: int(line[1]) * 1024 / 1e6 for line in lines if line[0] in kinds}


def most(results, name, pid):
    """Enters the memory of a process under that name where it is more than what is there."""
    for kind, mb in memory_mb(pid).items():
        results[name + kind] = max(mb, results.get(name + kind, 0))


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

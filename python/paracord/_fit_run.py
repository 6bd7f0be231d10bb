"""Runs `paracord train` for `paracord.fit`: its events, its progress, and Ctrl-C."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from typing import Any, Dict, List, Optional, Sequence

import paracord_programs

_AGAIN_S = 1.0  # between two questions after the status


class TrainError(RuntimeError):
    """A training that did not come to its end; the text is the product's own.

    `code` is the exit code (docs/operate.md), `reason` what the job's summary says of it, and
    `summary` that summary, or None.
    """

    def __init__(self, text: str, code: int = 2, summary: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(text)
        self.code = code
        self.summary = summary
        self.reason = (summary or {}).get("reason", text)


def program(name: str = "paracord") -> str:
    path = paracord_programs.find(name)
    if not path:
        raise TrainError(paracord_programs.missing(name))
    return path


def environment() -> Dict[str, str]:
    """In which a job's program finds the modules that this process finds."""
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = [own, *(place or os.getcwd() for place in sys.path)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(path))}


def said(text: str, command: str) -> str:
    """What a command printed about a mistake, without its own name in front of each line."""
    start = f"paracord {command}: "
    return "\n".join(line[len(start):] if line.startswith(start) else line
                     for line in text.strip().splitlines())


def run(command: Sequence[str], folder: str) -> str:
    """Runs a command that ends by itself, and returns what it printed."""
    ran = subprocess.run([program(), *command], cwd=folder, env=environment(), text=True,
                         stdin=subprocess.DEVNULL, capture_output=True)
    if ran.returncode:
        raise TrainError(said(ran.stderr, command[0]), ran.returncode)
    return ran.stdout


class Training:
    """A `paracord train` in a session of its own, which a terminal's Ctrl-C does not reach: this
    process asks it to leave, once for each SIGINT."""

    def __init__(self, arguments: Sequence[str], folder: str, epochs: int, verbose: int) -> None:
        self._folder = folder
        self._line = _Line(epochs, verbose)
        self._events: queue.Queue[Optional[Dict[str, Any]]] = queue.Queue()
        self._errors: List[str] = []
        self._told_progress = False
        self.summary: Optional[Dict[str, Any]] = None
        self.interrupted = False
        self._process = subprocess.Popen(
            [program(), "train", "job.json", "--json", "--dir", "run", *arguments], cwd=folder,
            env=environment(), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True)
        self._readers = [threading.Thread(target=read, daemon=True)
                         for read in (self._read_events, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as out:
            for line in out:
                try:
                    self._events.put(json.loads(line))
                except ValueError:
                    continue
        self._events.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as out:
            for line in out:
                self._errors.append(line)
                if ": warning: " in line or ": note: " in line:
                    self._line.say(line.rstrip("\n"))

    def wait(self) -> int:
        """Returns the exit code; it is interrupted if Ctrl-C ended it."""
        # An exception might come anywhere, also where the one before it is dealt with.
        main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, self._interrupt) if main else None
        try:
            event: Optional[Dict[str, Any]] = {}
            while event is not None:
                try:
                    event = self._events.get(timeout=_AGAIN_S)
                except queue.Empty:
                    event = {}
                    if not self._told_progress:
                        self._ask()
                self._take(event or {})
            code = self._process.wait()
            for reader in self._readers:
                reader.join()
        finally:
            if main:
                signal.signal(signal.SIGINT, before)
        self._line.close(done=code == 0)
        return code

    def _interrupt(self, *_: Any) -> None:
        self.interrupted = True
        self._leave()

    def _leave(self) -> None:
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGINT)

    def kill(self) -> None:
        """Ends it, when this process ends before it."""
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGTERM)

    def errors(self) -> str:
        lines = [line for line in self._errors if ": warning: " not in line
                 and ": note: " not in line]
        return said("".join(lines), "train")

    def _take(self, event: Dict[str, Any]) -> None:
        kind = event.get("event")
        if kind == "end":
            self.summary = event["summary"]
        elif kind == "epoch":
            self._line.epoch(event["epoch"], event.get("train") or {}, event.get("test") or {})
        elif kind == "progress":
            self._told_progress = True
            self._line.show(event)
        elif "text" in event and kind not in ("start", "stopped"):
            self._line.say(event["text"])

    def _ask(self) -> None:
        """Asks for the status, of which the progress is made."""
        try:
            asked = subprocess.run([program(), "status", "--dir", "run", "--json"], text=True,
                                   cwd=self._folder, capture_output=True, timeout=5)
            status = json.loads(asked.stdout)
        except (subprocess.TimeoutExpired, ValueError):
            return
        self._line.show(status)


class _Line:
    """Progress for people: a bar of tqdm where that is, or else a line for each epoch and below
    them one that is written anew. Its loss is that of the last batches, an epoch's the mean."""

    def __init__(self, epochs: int, verbose: int) -> None:
        self._epochs, self._verbose, self._bar, self._shown = epochs, verbose, None, 0
        if verbose == 1:
            try:
                from tqdm.auto import tqdm
                self._bar = tqdm(total=0, unit="batch", leave=True)
            except ImportError:
                pass

    def show(self, status: Dict[str, Any]) -> None:
        batches, done = status.get("batches") or 0, status.get("batches_done") or 0
        loss = status.get("loss")
        if self._verbose != 1 or not batches:
            return
        words = f"epoch {status['epoch']}/{status['epochs']}"
        if loss is not None:
            words += f"  loss now {loss:.4f}"
        for name, value in (status.get("train") or {}).items():  # of the epoch under way
            if name != "loss" and value is not None:
                words += f"  {name} {value:.4f}"
        if self._bar is not None:
            self._bar.total, self._bar.n = batches, done
            self._bar.set_description_str(words, refresh=False)
            self._bar.refresh()
            return
        text = f"{words}  {100 * done // batches} %"
        if status.get("samples_per_second"):
            text += f"  {status['samples_per_second']:.0f} samples/s"
        sys.stdout.write("\r" + text.ljust(self._shown))
        sys.stdout.flush()
        self._shown = len(text)

    def epoch(self, epoch: int, train: Dict[str, float], test: Dict[str, float]) -> None:
        words = [f"epoch {epoch}/{self._epochs}"]
        for prefix, metrics in ("", train), ("val_", test):
            for name in sorted(metrics, key=lambda name: (name != "loss", name)):
                if metrics[name] is not None:
                    words.append(f"{prefix}{name} {metrics[name]:.4f}")
        if self._bar is None:
            self.say("  ".join(words))
        else:
            self._bar.set_postfix_str("  ".join(words[1:]), refresh=True)

    def say(self, text: str) -> None:
        if not self._verbose:
            return
        if self._bar is not None:
            self._bar.write(text)
            return
        self._end()
        print(text, flush=True)

    def _end(self) -> None:
        if self._shown:  # another line takes its place
            sys.stdout.write("\r" + " " * self._shown + "\r")
            sys.stdout.flush()
        self._shown = 0

    def close(self, done: bool) -> None:
        if self._bar is not None:
            if done:
                self._bar.n = self._bar.total
            self._bar.close()
        self._end()

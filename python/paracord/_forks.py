"""Processes that the user's code forks, by multiprocessing or a DataLoader: they end with this one,
which the kernel ends with its worker. Linux alone has that."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import threading

_SET_DEATH_SIGNAL = 1


def end_with_this(worker: socket.socket) -> None:
    """Has each fork from now on give up the socket and die with the process that forked it."""
    prctl = ctypes.CDLL(None).prctl
    parent = 0
    by_main_thread = True

    def before() -> None:
        nonlocal parent, by_main_thread
        parent = os.getpid()
        # The signal comes at the end of the thread that forked; others may end before the process.
        by_main_thread = threading.current_thread() is threading.main_thread()

    def after_in_child() -> None:
        worker.close()
        if by_main_thread:
            prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)  # it has ended meanwhile

    os.register_at_fork(before=before, after_in_child=after_in_child)

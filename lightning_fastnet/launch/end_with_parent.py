"""A rank that the launcher started ends when it is told to, or when the launcher is gone, even in the middle of a collective."""

import ctypes
import os
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent() -> None:
    """Call once in a rank, on its main thread, before a Trainer is made (Lightning leaves a handler that is there alone).

    A handler in Python runs between two instructions of the main thread, which a rank that waits in a collective never reaches; the
    number of a signal, though, is written to a pipe at once, and a thread that reads it ends the process.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_wait_for_sigterm, args=(read,), daemon=True).start()
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it went in between
            os._exit(1)


def _wait_for_sigterm(read: int) -> None:
    while True:
        if signal.SIGTERM in os.read(read, 1):
            os._exit(128 + signal.SIGTERM)

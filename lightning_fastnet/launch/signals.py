"""What a rank does with Ctrl-C, with SIGTERM, and when its launcher is gone: even in the middle of a collective."""

import contextlib
import ctypes
import os
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
PARENT = "FASTNET_PARENT"
STOPPING = "stopping at the end of this step (an evaluation under way ends first); Ctrl-C again ends at once"


class StopRequest:
    """Whether Ctrl-C asked this rank to stop at the end of its step.

    Attributes:
        requested: it did.
        armed: there is something to save. Until then, and at the second Ctrl-C, the process ends at once, with status 130.
    """

    def __init__(self) -> None:
        self.requested = False
        self.armed = False


def watch_signals(announce: bool) -> StopRequest:
    """Call once in a rank, on its main thread, before a Trainer is made (Lightning leaves a SIGTERM handler that is there alone).

    A handler in Python runs between two instructions of the main thread, which a rank that waits in a collective never reaches; the
    number of a signal, though, is written to a pipe at once, and a thread reads it.

    Args:
        announce: say on standard error what the first Ctrl-C does.
    """
    stop = StopRequest()
    read, write = os.pipe()
    os.set_blocking(write, False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(read, stop, announce), daemon=True).start()
    return stop


def end_with_parent() -> None:
    """Ends this process when the one that started it (:data:`PARENT` in the environment) is gone, however it went (Linux)."""
    if sys.platform == "linux":
        parent = int(os.environ.get(PARENT, os.getppid()))
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it went in between
            os._exit(1)


def _watch(read: int, stop: StopRequest, announce: bool) -> None:
    while True:
        number = os.read(read, 1)[0]
        if number == signal.SIGTERM:
            _exit(128 + signal.SIGTERM)
        if number == signal.SIGINT:
            if stop.requested or not stop.armed:
                _exit(128 + signal.SIGINT)
            stop.requested = True
            if announce:
                _say(f"\n{STOPPING}\n")


def _exit(status: int) -> None:
    if sys.stderr is not None and sys.stderr.isatty():
        _say("\x1b[?25h")  # a progress bar may have hidden the cursor
    os._exit(status)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, text.encode())

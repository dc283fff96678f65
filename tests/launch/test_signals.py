"""A rank blocked outside Python ends at once on SIGTERM, and with a killed parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

RANK = """
import ctypes
from lightning_fastnet.launch.signals import end_with_parent, watch_signals
stop = watch_signals(announce=False)
stop.armed = True
end_with_parent()
print("ready", flush=True)
while True:
    ctypes.CDLL(None).sleep(600)  # outside Python, as in a collective
"""
PARENT = f"""
import subprocess, sys, time
rank = subprocess.Popen([sys.executable, "-c", {RANK!r}])
print(rank.pid, flush=True)
time.sleep(600)
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a parent's death is a signal on Linux only")


def test_sigterm_ends_it_in_the_middle_of_a_call() -> None:
    rank = subprocess.Popen([sys.executable, "-c", RANK], stdout=subprocess.PIPE, text=True)
    assert rank.stdout is not None
    assert rank.stdout.readline() == "ready\n"
    rank.send_signal(signal.SIGTERM)
    assert rank.wait(timeout=20) == 143
    rank.stdout.close()


def test_it_ends_with_a_killed_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert parent.stdout.readline() == "ready\n"
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(pid, within_seconds=20)


def gone(pid: int, within_seconds: float) -> bool:
    deadline = time.monotonic() + within_seconds
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().split()[2]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":  # dead; whoever inherited it has not looked yet
            return True
        time.sleep(0.05)
    return False


def test_a_parent_that_was_gone_before_it_looked_is_noticed() -> None:
    """A launcher that was killed while its ranks still imported: their parent is another process by now."""
    code = "from lightning_fastnet.launch.signals import end_with_parent; end_with_parent(); print('goes on')"
    for parent, said in ((os.getpid(), "goes on\n"), (2**22 + 1, "")):
        environ = {**os.environ, "FASTNET_PARENT": str(parent)}
        done = subprocess.run([sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE, text=True)
        assert (done.returncode, done.stdout) == (0 if said else 1, said)

"""Ctrl-C while it starts, twice, and a killed or terminated command: it ends at once, and no process of ours is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.command import environment

pytest.importorskip("nvidia.dali")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


@contextmanager
def started(cwd: Path, digits: Path, ranks: int, *more: str) -> Iterator[subprocess.Popen[str]]:
    words = [f"data.root={digits}", "trainer.accelerator=cpu", f"trainer.devices={ranks}", "trainer.max_epochs=1000", *more]
    with subprocess.Popen(
        [sys.executable, "-m", "lightning_fastnet.cli.train", *words],
        cwd=cwd,
        env=environment(MARK=str(cwd)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], beginning: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(beginning):
            return
    raise AssertionError(f"it ended without saying {beginning!r}")


def ours(cwd: Path) -> list[int]:
    """Processes that have this test's mark in their environment."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"MARK={cwd}\0".encode() in environ.read_bytes():
                found.append(int(environ.parent.name))
        except OSError:
            continue
    return found


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("ranks", [1, 2])
def test_ctrl_c_while_it_starts_ends_it(tmp_path: Path, digits: Path, ranks: int) -> None:
    with started(tmp_path, digits, ranks) as process:
        wait_for(process, "quickstart: ")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
    assert within(10, lambda: not ours(tmp_path))


@pytest.mark.parametrize("ranks", [1, 2])
def test_ctrl_c_twice_ends_it_in_the_middle_of_a_step(tmp_path: Path, digits: Path, ranks: int) -> None:
    """A rank that hangs outside Python, so that a step never ends."""
    hang = ["+callbacks.hang._target_=tests.cli.parts.HangAt", "+callbacks.hang.step=3"]
    with started(tmp_path, digits, ranks, *hang) as process:
        assert within(60, lambda: any(tmp_path.glob("outputs/*/*/hanging")))
        process.send_signal(signal.SIGINT)
        time.sleep(1)
        assert process.poll() is None, "once: it waits for the step's end"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) in (130, -signal.SIGINT)
    assert within(10, lambda: not ours(tmp_path))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ended_from_outside_it_takes_its_ranks_with_it(tmp_path: Path, digits: Path, number: signal.Signals) -> None:
    with started(tmp_path, digits, 2) as process:
        wait_for(process, "epoch 1/")
        assert len(ours(tmp_path)) >= 3
        os.kill(process.pid, number)
        assert process.wait(timeout=40) in (143, -signal.SIGKILL)
    assert within(10, lambda: not ours(tmp_path))

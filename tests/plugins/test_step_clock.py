"""The host's clock against times written by hand."""

import pytest
import torch

from lightning_fastnet.plugins import step_clock
from lightning_fastnet.plugins.step_clock import CudaClock, HostClock


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, set by the test."""
    time = [0.0]
    monkeypatch.setattr(step_clock, "perf_counter", lambda: time[0])
    return time


def test_adds_up_each_phase_over_steps(now: list[float]) -> None:
    clock = HostClock()
    for _ in range(3):
        clock.enter("data")
        now[0] += 0.002
        clock.enter("forward")
        now[0] += 0.005
        clock.enter("rest")
        now[0] += 0.001
        clock.enter("data")
        clock.end_step()
    milliseconds, steps = clock.take()
    assert steps == 3
    assert milliseconds == pytest.approx({"data": 6.0, "forward": 15.0, "rest": 3.0})
    assert clock.take() == ({}, 0)


def test_a_stopped_clock_counts_nothing(now: list[float]) -> None:
    clock = HostClock()
    clock.enter("rest")
    now[0] += 0.003
    clock.enter(None)
    now[0] += 100.0  # a validation
    clock.enter("data")
    now[0] += 0.001
    clock.enter(None)
    clock.end_step()
    assert clock.take()[0] == pytest.approx({"rest": 3.0, "data": 1.0})


@pytest.mark.gpu
def test_the_devices_clock_sees_the_devices_work() -> None:
    clock = CudaClock()
    for _ in range(5):
        clock.enter("forward")
        torch.cuda._sleep(20_000_000)
        clock.enter("rest")
        clock.end_step()
    torch.cuda.synchronize()
    milliseconds, steps = clock.take()
    assert steps == 5
    assert milliseconds["forward"] > 10 * milliseconds["rest"]

"""Clocks that split a step's time into phases: the host's, and the device's own through CUDA events."""

from collections import defaultdict, deque
from itertools import pairwise
from time import perf_counter
from typing import Protocol

import torch


class StepClock(Protocol):
    """Adds up how long each phase was the running one.

    ``enter(phase)`` ends the running phase and starts the next; ``enter(None)`` stops the clock (validation, checkpoints).
    ``end_step()`` closes a step. ``take()`` returns milliseconds by phase and the number of steps since the last ``take()``;
    ``discard()`` forgets them, those included that are not read yet.
    """

    def enter(self, phase: str | None) -> None: ...
    def end_step(self) -> None: ...
    def take(self) -> tuple[dict[str, float], int]: ...
    def discard(self) -> None: ...


class HostClock:
    """Wall time on the host: right where the host does the work (CPU)."""

    def __init__(self) -> None:
        self._phase: str | None = None
        self._since = 0.0
        self._step: dict[str, float] = defaultdict(float)
        self._total: dict[str, float] = defaultdict(float)
        self._steps = 0

    def enter(self, phase: str | None) -> None:
        now = perf_counter()
        if self._phase is not None:
            self._step[self._phase] += 1e3 * (now - self._since)
        self._phase, self._since = phase, now

    def end_step(self) -> None:
        for phase, milliseconds in self._step.items():
            self._total[phase] += milliseconds
        self._step.clear()
        self._steps += 1

    def take(self) -> tuple[dict[str, float], int]:
        taken = dict(self._total), self._steps
        self.discard()
        return taken

    def discard(self) -> None:
        self._total.clear()
        self._steps = 0


class CudaClock:
    """Time on the device's own line of work, by events on the current stream.

    A phase that the host spends while the device is still busy costs nothing here; one that the device waits for costs what it waits.
    Nothing is synchronised: a step is read some steps later, once its last event has passed.
    """

    def __init__(self) -> None:
        self._phase: str | None = None
        self._marks: list[tuple[str | None, torch.cuda.Event]] = []
        self._pending: deque[list[tuple[str | None, torch.cuda.Event]]] = deque()
        self._total: dict[str, float] = defaultdict(float)
        self._steps = 0

    def enter(self, phase: str | None) -> None:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._marks.append((phase, event))

    def end_step(self) -> None:
        if self._marks:
            self._pending.append(self._marks)
            # the running phase goes on in the next step, from the same event
            self._marks = [self._marks[-1]]
        self._collect()

    def _collect(self) -> None:
        while self._pending and self._pending[0][-1][1].query():
            marks = self._pending.popleft()
            for (phase, start), (_, end) in pairwise(marks):
                if phase is not None:
                    self._total[phase] += start.elapsed_time(end)
            self._steps += 1

    def take(self) -> tuple[dict[str, float], int]:
        self._collect()
        taken = dict(self._total), self._steps
        self._total.clear()
        self._steps = 0
        return taken

    def discard(self) -> None:
        self._pending.clear()
        self._total.clear()
        self._steps = 0

"""StepProfile: where a training step's time goes, in five numbers and one sentence."""

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.autograd import Variable
from torch.profiler import record_function
from typing_extensions import override

from lightning_fastnet.errors import require_lightning_trainer
from lightning_fastnet.plugins.step_clock import CudaClock, HostClock, StepClock

PHASES = ("data", "forward", "backward", "communication", "optimizer", "rest")
"""In the order in which a step goes through them."""

_FETCH = "[_TrainingEpochLoop].train_dataloader_next"  # the action that Lightning's training loop reports around next(dataloader)


class StepProfile(Callback):
    """Splits each training step into waiting for data, forward, backward, communication that backward does not hide, optimizer, the rest.

    When each phase begins: *data* as the loop asks the loader for a batch, *forward* at ``on_train_batch_start``, *backward* at
    ``on_before_backward``, *communication* once the last gradient is computed (DDP then waits for its buckets), *optimizer* at
    ``on_after_backward`` (unscaling, clipping and ``step``), *rest* at ``on_train_batch_end`` (callbacks, loggers, moving the batch).
    Validation and checkpoints are not part of a step. On CUDA the times are those of the device, by events, without a host
    synchronisation; elsewhere they are wall time.

    Every ``log_every_n_steps`` batches of the Trainer the means since the last time go to its loggers as ``profile/<phase>_ms`` and
    ``profile/step_ms``. :meth:`summary` returns the means over the fit. While torch's profiler runs, the phases show there as
    ``fastnet::<phase>``.

    Limits: it speaks for its own rank; a step is a batch, also with accumulation; with manual optimisation what lies between two
    backward calls counts as optimizer.

    Args:
        skip_steps: first steps of a fit that are not counted (DDP rebuilds its buckets, kernels are chosen).
        print_summary: print the table and :meth:`verdict` on rank 0 at the end of a fit.

    Example:
        >>> trainer = Trainer(callbacks=[StepProfile()], logger=False, enable_progress_bar=False)
    """

    def __init__(self, skip_steps: int = 2, print_summary: bool = True) -> None:
        self.skip_steps = skip_steps
        self.print_summary = print_summary
        self._clock: StepClock = HostClock()
        self._total_ms = dict.fromkeys(PHASES, 0.0)
        self._total_steps = 0
        self._batches = 0
        self._open = False  # a batch has run and its step is not closed yet
        self._range: record_function | None = None

    # ---- results -----------------------------------------------------------------------------------------------------------------

    def summary(self) -> dict[str, float]:
        """Mean milliseconds a step: ``profile/<phase>_ms`` and their sum ``profile/step_ms``. Empty before a counted step."""
        return _means(self._total_ms, self._total_steps)

    def verdict(self) -> str:
        """One sentence in words: what limits this run."""
        return verdict(self.summary())

    # ---- hooks -------------------------------------------------------------------------------------------------------------------

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        require_lightning_trainer(trainer, "StepProfile")

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._clock = CudaClock() if trainer.strategy.root_device.type == "cuda" else HostClock()
        self._total_ms = dict.fromkeys(PHASES, 0.0)
        self._total_steps = self._batches = 0
        self._open = False
        trainer.profiler = _FetchMarks(trainer.profiler, self)  # type: ignore[attr-defined]

    def _fetch_starts(self) -> None:
        self._enter("data")
        self._close_step()

    def _fetch_ends(self) -> None:
        self._enter("rest")

    @override
    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._enter("forward")

    @override
    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        self._enter("backward")
        if loss.requires_grad:
            loss.register_hook(self._backward_begins)

    def _backward_begins(self, gradient: Tensor) -> None:
        # callbacks of the engine run when all gradients are there, in the order of their queueing; DDP queues its wait later than this
        Variable._execution_engine.queue_callback(self._gradients_ready)

    def _gradients_ready(self) -> None:
        # this may run on a thread of the engine: the profiler's range stays open, only the clock moves on
        self._clock.enter("communication")

    @override
    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._enter("optimizer")

    @override
    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._enter("rest")
        self._batches += 1
        self._open = True
        interval = trainer.log_every_n_steps  # type: ignore[attr-defined]
        if interval and self._batches % interval == 0:
            self._log(trainer)

    @override
    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._enter(None)

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._enter(None)

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._stop(trainer)
        self._close_step()
        self._log(trainer)
        if self.print_summary and trainer.is_global_zero and self._total_steps:
            print(self._table(), flush=True)

    @override
    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._stop(trainer)

    # ---- inside ------------------------------------------------------------------------------------------------------------------

    def _enter(self, phase: str | None) -> None:
        self._clock.enter(phase)
        if self._range is not None:
            self._range.__exit__(None, None, None)
            self._range = None
        if phase is not None and torch.autograd._profiler_enabled():
            self._range = record_function(f"fastnet::{phase}")
            self._range.__enter__()

    def _close_step(self) -> None:
        if self._open:
            self._clock.end_step()
            self._open = False
            if self._batches == self.skip_steps:
                self._clock.discard()

    def _stop(self, trainer: Trainer) -> None:
        self._enter(None)
        if isinstance(trainer.profiler, _FetchMarks):  # type: ignore[attr-defined]
            trainer.profiler = trainer.profiler.inner  # type: ignore[attr-defined]

    def _log(self, trainer: Trainer) -> None:
        milliseconds, steps = self._clock.take()
        if not steps or self._batches <= self.skip_steps:
            return
        for phase, value in milliseconds.items():
            self._total_ms[phase] += value
        self._total_steps += steps
        for logger in trainer.loggers:
            logger.log_metrics(_means(milliseconds, steps), step=max(0, trainer.global_step - 1))  # Lightning's own number of this step

    def _table(self) -> str:
        means = self.summary()
        step = means["profile/step_ms"]
        rows = [
            f"  {phase:<14}{means[f'profile/{phase}_ms']:10.2f} ms {100 * means[f'profile/{phase}_ms'] / step:5.0f} %" for phase in PHASES
        ]
        head = f"Where a step's time went ({step:.2f} ms, mean of {self._total_steps} steps):"
        return "\n".join([head, *rows, self.verdict()])


def _means(milliseconds: dict[str, float], steps: int) -> dict[str, float]:
    if not steps:
        return {}
    means = {f"profile/{phase}_ms": milliseconds.get(phase, 0.0) / steps for phase in PHASES}
    return means | {"profile/step_ms": sum(means.values())}


def verdict(means: dict[str, float]) -> str:
    """What limits a run whose mean step is ``means`` (keys as in :meth:`StepProfile.summary`), in one sentence."""
    step = means.get("profile/step_ms", 0.0)
    if not step:
        return "No step was counted."
    share = {phase: 100 * means[f"profile/{phase}_ms"] / step for phase in PHASES}
    if share["data"] >= 20:
        return f"The loader limits this run: {share['data']:.0f} % of a step waits for data; give it more threads or smaller pictures."
    if share["communication"] >= 15:
        return (
            f"Communication is not hidden: {share['communication']:.0f} % of a step waits, after backward is done, for the "
            "all-reduce or for a slower rank; use a larger batch or fewer ranks a link."
        )
    if share["rest"] >= 30:
        return (
            f"The loop around the model limits this run: {share['rest']:.0f} % of a step is neither data, model nor all-reduce; "
            "use a larger batch or fewer callbacks."
        )
    compute = share["forward"] + share["backward"]
    if share["optimizer"] > compute:
        return f"The optimizer limits this run: it takes {share['optimizer']:.0f} % of a step; use a larger batch."
    return f"Compute limits this run: forward and backward take {compute:.0f} % of a step."


class _FetchMarks:
    """Stands before the Trainer's profiler and passes everything on; the training loop tells it when it fetches a batch."""

    def __init__(self, inner: Any, profile: StepProfile) -> None:
        self.inner = inner
        self._profile = profile

    def start(self, action_name: str) -> None:
        self.inner.start(action_name)
        if action_name == _FETCH:
            self._profile._fetch_starts()

    def stop(self, action_name: str) -> None:
        if action_name == _FETCH:
            self._profile._fetch_ends()
        self.inner.stop(action_name)

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # a copy that is not filled yet
            raise AttributeError(name)
        return getattr(self.inner, name)

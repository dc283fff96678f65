"""One rank of a run: train and test, or evaluate; write down what came out."""

import errno
import math
import os
import re
import sys
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from lightning_fastnet.cli import IN_SWEEP, STARTED
from lightning_fastnet.cli.entry import modules_here_last
from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.checkpoints import LAST
from lightning_fastnet.launch.signals import StopRequest, end_with_parent, watch_signals

_NO_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def run_rank(config: DictConfig, stop: StopRequest) -> bool:
    """Does what ``config.task`` says; on rank 0 fills the run's folder and prints the table.

    Args:
        stop: Ctrl-C's.

    Returns:
        Whether it came to its end (else it was stopped, and can be resumed).

    Raises:
        UserError: bad input, or a loss that ended as infinity or NaN (the folder is filled all the same).
    """
    import torch.distributed as dist

    from lightning_fastnet.cli.evaluate import evaluate

    try:
        ended = _fit(config, stop) if config.task == "fit" else evaluate(config)
    except OSError as error:
        if error.errno in _NO_WRITING and error.filename:
            raise UserError(f"{error.filename} cannot be read or written ({error.strerror}): give another place.") from error
        if error.errno == errno.ENOSPC:
            raise UserError(f"The disk of {config.run_dir} is full: make room, or give another place with outputs=FOLDER.") from error
        raise
    except TypeError as error:  # of a class that only the Trainer makes, once it knows the run's length or the device
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        for group in ("optimizer", "strategy"):
            if unknown and unknown[1] in config[group]:
                raise UserError(f"{group}.{unknown[1]} is no argument of the {group}: correct it or leave it out.") from error
        raise
    if dist.is_initialized():
        dist.destroy_process_group()
    return ended


def _fit(config: DictConfig, stop: StopRequest) -> bool:
    from lightning_fastnet.cli.parts import make_parts
    from lightning_fastnet.launch.checkpoint_io import room_for_checkpoints
    from lightning_fastnet.plugins.graceful_stop import GracefulStop, RunStopped
    from lightning_fastnet.plugins.random_state import RandomState
    from lightning_fastnet.report.run_metrics import RunMetrics

    run_dir = Path(config.run_dir)
    metrics = RunMetrics(config.target, started=float(os.environ.get("FASTNET_STARTED", STARTED)))
    stopper = GracefulStop(stop, run_dir / "checkpoints" / LAST)
    parts = make_parts(config, [metrics, RandomState(config.seed), stopper])
    trainer = parts.trainer
    if trainer.is_global_zero:
        weights = sum(parameter.numel() * parameter.element_size() for parameter in parts.model.parameters())
        room_for_checkpoints(run_dir, 2 * weights)  # and a momentum
    ended = True
    try:
        trainer.fit(parts.model, datamodule=parts.data, ckpt_path=config.checkpoint, weights_only=True if config.checkpoint else None)
        trainer.test(parts.model, datamodule=parts.data, verbose=False)
    except RunStopped:
        ended = False
    diverged = not all(math.isfinite(value) for value in metrics.values.values())
    if trainer.is_global_zero:
        _write_down(config, parts, metrics, "stopped" if not ended else "diverged" if diverged else "finished")
    trainer.strategy.barrier()  # a rank that leaves with an error ends the others: not before rank 0 has written
    if diverged:
        raise UserError("The run diverged, its loss is not finite any more: lower optimizer.lr or lengthen optimizer.warmup_epochs.")
    return ended


def _write_down(config: DictConfig, parts: Any, metrics: Any, status: str) -> None:
    from lightning_fastnet.plugins.step_profile import StepProfile
    from lightning_fastnet.report.learning_curve import draw_learning_curve
    from lightning_fastnet.report.run_metrics import write_metrics
    from lightning_fastnet.report.summary import print_line, print_summary

    trainer, run_dir = parts.trainer, Path(config.run_dir)
    profile = next((callback for callback in trainer.callbacks if isinstance(callback, StepProfile)), None)
    results = metrics.as_dict(trainer) | (profile.summary() if profile else {}) | {"run/status": status} | parts.test_split()
    write_metrics(run_dir / "metrics.json", results)  # first: it says that the run has ended
    if (run_dir / "metrics.csv").exists():
        draw_learning_curve(run_dir / "metrics.csv", run_dir / "learning_curve.png", config.target, config.recipe_name)
    if IN_SWEEP in os.environ:
        print_line(results)
        return
    print_summary(f"{config.recipe_name}: {status}", results, config.target, profile.verdict() if profile else None, run_dir)


def main() -> None:
    """``python -m lightning_fastnet.cli.rank CONFIG``: how the launcher starts a rank; the config is resolved already."""
    end_with_parent()
    rank = os.environ.get("LOCAL_RANK", "0")
    stop = watch_signals(announce=rank == "0")
    modules_here_last()
    if rank != "0":  # one rank speaks to the terminal
        log = os.open(Path(os.environ["FASTNET_LOGS"]) / f"rank{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
    from torch.distributed.elastic.multiprocessing.errors import get_error_handler

    handler = get_error_handler()
    handler.initialize()
    try:
        config = OmegaConf.load(sys.argv[1])
        assert isinstance(config, DictConfig)
        run_rank(config, stop)
    except Exception as error:
        handler.record_exception(error)  # the launcher tells the user, once
        sys.stdout.flush()
        os._exit(2 if isinstance(error, UserError) else 1)  # at once: the other ranks may wait for this one in a collective


if __name__ == "__main__":
    main()

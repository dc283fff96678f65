"""One rank of a run: instantiate what the config names, fit, test, write down what came out."""

import logging
import math
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from lightning_fastnet.cli import STARTED
from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.end_with_parent import end_with_parent


def run_rank(config: DictConfig) -> None:
    """Trains and tests; on rank 0 fills the run's folder and prints the table.

    Raises:
        UserError: bad input, or a loss that ended as infinity or NaN (the folder is filled all the same).
    """
    import torch.distributed as dist
    from lightning.pytorch import seed_everything
    from lightning.pytorch.callbacks import Checkpoint, ProgressBar

    from lightning_fastnet.plugins.step_profile import StepProfile
    from lightning_fastnet.report.learning_curve import draw_learning_curve
    from lightning_fastnet.report.run_metrics import RunMetrics, write_metrics
    from lightning_fastnet.report.summary import print_summary

    _quiet()
    run_dir = Path(config.run_dir)
    started = float(os.environ.get("FASTNET_STARTED", STARTED))
    seed_everything(config.seed, workers=True, verbose=False)
    data = _make(config.data)
    model = _make(config.model, optimizer=_make(config.optimizer))
    metrics = RunMetrics(config.target, started=started)
    callbacks = [metrics, *(_make(callback) for callback in (config.get("callbacks") or {}).values())]
    trainer = _make(
        config.trainer,
        strategy=_make(config.strategy),
        plugins=[_make(config.precision)],
        callbacks=callbacks,
        logger=_make(config.logger) if config.get("logger") else False,
        default_root_dir=str(run_dir),
        enable_checkpointing=any(isinstance(callback, Checkpoint) for callback in callbacks),
        enable_progress_bar=any(isinstance(callback, ProgressBar) for callback in callbacks),
    )
    trainer.fit(model, datamodule=data)
    trainer.test(model, datamodule=data, verbose=False)
    if trainer.is_global_zero:
        profile = next((callback for callback in callbacks if isinstance(callback, StepProfile)), None)
        if (run_dir / "metrics.csv").exists():
            draw_learning_curve(run_dir / "metrics.csv", run_dir / "learning_curve.png", config.target, config.recipe_name)
        results = metrics.as_dict(trainer) | (profile.summary() if profile else {})
        write_metrics(run_dir / "metrics.json", results)
        print_summary(config.recipe_name, results, config.target, profile.verdict() if profile else None, run_dir)
    trainer.strategy.barrier()  # a rank that leaves with an error ends the others: not before rank 0 has written
    if not all(math.isfinite(value) for value in metrics.values.values()):
        raise UserError("The run diverged, its loss is not finite any more: lower optimizer.lr or lengthen optimizer.warmup_epochs.")
    if dist.is_initialized():
        dist.destroy_process_group()


def _make(node: DictConfig, **arguments: Any) -> Any:
    try:
        return instantiate(node, **arguments, _convert_="all")
    except InstantiationException as error:
        if isinstance(error.__cause__, UserError):  # the sentence without Hydra's wrapping
            raise error.__cause__ from None
        raise


def _quiet() -> None:
    """Leaves the terminal to the progress bar and the table: no hardware notices, no advice that the recipes already decided on."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    logging.getLogger("lightning.fabric").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="lightning.*")


def main() -> None:
    """``python -m lightning_fastnet.cli.rank CONFIG``: how the launcher starts a rank; the config is resolved already."""
    from torch.distributed.elastic.multiprocessing.errors import get_error_handler

    rank = os.environ.get("LOCAL_RANK", "0")
    if rank != "0":  # one rank speaks to the terminal
        log = os.open(Path(os.environ["FASTNET_LOGS"]) / f"rank{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, sys.stdout.fileno())
        os.dup2(log, sys.stderr.fileno())
    end_with_parent()
    handler = get_error_handler()
    handler.initialize()
    try:
        config = OmegaConf.load(sys.argv[1])
        assert isinstance(config, DictConfig)
        run_rank(config)
    except Exception as error:
        handler.record_exception(error)  # the launcher tells the user, once
        sys.stdout.flush()
        os._exit(2 if isinstance(error, UserError) else 1)  # at once: the other ranks may wait for this one in a collective


if __name__ == "__main__":
    main()

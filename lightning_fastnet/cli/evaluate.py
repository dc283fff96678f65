"""``task=validate``, ``test`` and ``predict``: a run's weights on data."""

import csv
import os
import time
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from lightning_fastnet.cli import IN_SWEEP, STARTED
from lightning_fastnet.errors import UserError

PREDICTIONS = "predictions.csv"


def evaluate(config: DictConfig) -> bool:
    """Loads ``config.checkpoint`` and does what ``config.task`` says; rank 0 writes and prints what came out.

    Returns:
        True: it came to its end.
    """
    from lightning_fastnet.cli.parts import make_parts
    from lightning_fastnet.report.run_metrics import write_metrics
    from lightning_fastnet.report.summary import print_line, print_summary

    started = float(os.environ.get("FASTNET_STARTED", STARTED))
    parts = make_parts(config, [])
    trainer, run_dir = parts.trainer, Path(config.run_dir)
    arguments: dict[str, Any] = {"datamodule": parts.data, "ckpt_path": config.checkpoint, "weights_only": True}
    paths: list[str] = []
    if config.task == "predict":
        results = _predict(parts, run_dir, arguments)
        paths = getattr(parts.data, "predict_paths", [])
    else:
        run = trainer.validate if config.task == "validate" else trainer.test
        run(parts.model, verbose=False, **arguments)
        results = {name: float(value) for name, value in trainer.callback_metrics.items()}
    if trainer.is_global_zero:
        results |= {"time/total_seconds": time.time() - started, "trainer/world_size": trainer.world_size}
        results |= {"run/status": "finished", "run/checkpoint": config.checkpoint}
        results |= parts.test_split() if config.task == "test" else {}
        write_metrics(run_dir / "metrics.json", results)
        if IN_SWEEP in os.environ:
            print_line(results)
        else:
            print_summary(f"{config.recipe_name}: {config.task}", results, None, None, run_dir)
            print(f"Weights: {config.checkpoint}", flush=True)
            if paths:
                print(f"Pictures: {os.path.commonpath(paths)}\nPredictions: {run_dir / PREDICTIONS}", flush=True)
    trainer.strategy.barrier()
    return True


def _predict(parts: Any, run_dir: Path, arguments: dict[str, Any]) -> dict[str, Any]:
    """Writes ``predictions.csv``: a row a picture, in the order of their paths."""
    import torch
    import torch.distributed as dist

    trainer, data = parts.trainer, parts.data
    if not hasattr(type(data), "predict_paths"):
        raise UserError(f"{type(data).__name__} has no list of pictures to predict: use one of the folder data modules.")
    outputs = torch.cat(trainer.predict(parts.model, return_predictions=True, **arguments)).cpu()
    every: list[Any] = [outputs]
    if trainer.world_size > 1:
        every = [None] * trainer.world_size
        dist.all_gather_object(every, outputs)
    if not trainer.is_global_zero:
        return {}
    root, classes = Path(data.root).absolute(), data.classes
    with (run_dir / PREDICTIONS).open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "class", "probability"])
        for number, path in enumerate(data.predict_paths):
            # rank r got the pictures r, r + N, ...
            probability, label = every[number % len(every)][number // len(every)].max(0)
            rows.writerow([Path(path).relative_to(root), classes[int(label)], f"{float(probability):.6f}"])
    return {"predict/pictures": len(data.predict_paths)}

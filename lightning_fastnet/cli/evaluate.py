"""``task=validate``, ``test`` and ``predict``: a run's weights on data."""

import csv
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from lightning_fastnet.errors import UserError


def evaluate(config: DictConfig) -> bool:
    """Loads ``config.checkpoint`` and does what ``config.task`` says; rank 0 writes and prints what came out.

    Returns:
        True: it came to its end.
    """
    from lightning_fastnet.cli.parts import make_parts
    from lightning_fastnet.report.run_metrics import RunMetrics, write_metrics
    from lightning_fastnet.report.summary import print_summary

    metrics = RunMetrics()
    parts = make_parts(config, [metrics])
    trainer, run_dir = parts.trainer, Path(config.run_dir)
    arguments: dict[str, Any] = {"datamodule": parts.data, "ckpt_path": config.checkpoint, "weights_only": True}
    if config.task == "predict":
        results = _predict(parts, run_dir, arguments)
    else:
        run = trainer.validate if config.task == "validate" else trainer.test
        run(parts.model, verbose=False, **arguments)
        results = {name: value for name, value in metrics.as_dict(trainer).items() if value is not None}
    if trainer.is_global_zero:
        results |= {"run/status": "finished", "run/checkpoint": config.checkpoint}
        write_metrics(run_dir / "metrics.json", results)
        print_summary(f"{config.recipe_name}: {config.task} of {config.checkpoint}", results, None, None, run_dir)
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
    with (run_dir / "predictions.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "class", "probability"])
        for number, path in enumerate(data.predict_paths):
            # rank r got the pictures r, r + N, ...
            probability, label = every[number % len(every)][number // len(every)].max(0)
            rows.writerow([Path(path).relative_to(root), classes[int(label)], f"{float(probability):.6f}"])
    return {"predict/pictures": len(data.predict_paths)}

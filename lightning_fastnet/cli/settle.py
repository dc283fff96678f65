"""Fills in what a config leaves open: ranks, batch a rank. Refuses what cannot be, before torch or DALI are imported."""

from pathlib import Path
from typing import NoReturn

from hydra.utils import instantiate
from omegaconf import DictConfig

from lightning_fastnet.cli.numbers import check_numbers
from lightning_fastnet.cli.recall import named_run
from lightning_fastnet.data.class_folder import class_names
from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.checkpoints import read_checkpoint
from lightning_fastnet.launch.devices import resolve_devices
from lightning_fastnet.launch.outside import OutsideRank
from lightning_fastnet.launch.resume import saved_config


def settle(config: DictConfig, place: OutsideRank | None) -> None:
    """Makes ``trainer.accelerator``, ``trainer.devices``, ``trainer.num_nodes`` and the batch sizes definite, in place.

    Args:
        place: this rank among those that torchrun or srun started; None: the ranks are ours to start.

    Raises:
        UserError: data that is not there, devices that are not there, a batch that cannot be shared.
    """
    if "recipe" in config:
        raise UserError("The recipe's keys would have no effect: it needs `# @package _global_` as its first line.")
    for group in _NEEDED:
        if not config.get(group):
            article = "an" if group[0] in "aeiou" else "a"
            raise UserError(f"A run needs {article} {group}, and it was left out: exchange it with {group}=NAME instead.")
    check_numbers(config)
    _check_places(config)
    _check_warmup(config)
    _count_classes(config)
    trainer = config.trainer
    if place is None:
        if trainer.num_nodes != 1:
            raise UserError(
                f"trainer.num_nodes={trainer.num_nodes}, but this command starts ranks on one machine only: "
                "start it on every node with torchrun or srun."
            )
        devices = resolve_devices(trainer.accelerator, trainer.devices)
        trainer.accelerator, trainer.devices = devices.accelerator, devices.ranks
    else:
        if trainer.devices not in ("auto", place.local_world_size):
            raise UserError(
                f"trainer.devices={trainer.devices}, but {place.local_world_size} ranks were started on this node: leave it out."
            )
        if trainer.num_nodes not in (1, place.nodes):
            raise UserError(f"trainer.num_nodes={trainer.num_nodes}, but ranks were started on {place.nodes} nodes: leave it out.")
        trainer.accelerator = resolve_devices(trainer.accelerator, "auto").accelerator
        trainer.devices, trainer.num_nodes = place.local_world_size, place.nodes
    _share_batch(config, trainer.devices * trainer.num_nodes)


_NEEDED = ("trainer", "strategy", "precision", "optimizer", "data", "model")


def _check_places(config: DictConfig) -> None:
    root = config.data.get("root")
    if root is not None:
        config.data.root = str(Path(str(root)).absolute())  # a folder named 2026 comes as a number
        if not Path(config.data.root).is_dir():
            raise UserError(f"data.root={root} does not exist: give a folder with train/ and val/ in it.")
        if config.task == "fit" and not (Path(config.data.root) / "train").is_dir():
            parent = Path(config.data.root).parent
            hint = f"; do you mean data.root={parent}?" if (parent / "train").is_dir() else ": give a folder with train/ and val/ in it."
            raise UserError(f"data.root={root} has no folder train/{hint}")
    for key, example in (("outputs", "outputs=FOLDER"), ("recipe_name", "recipe_name=NAME")):
        if key in config:
            if config[key] in (None, ""):
                raise UserError(f"{key} is empty, and it names the run's folder: give {example}.")
            config[key] = str(config[key])


def _check_warmup(config: DictConfig) -> None:
    warmup, epochs = config.optimizer.get("warmup_epochs"), config.trainer.get("max_epochs")
    if config.task == "fit" and warmup is not None and epochs is not None and warmup > epochs:
        raise UserError(
            f"optimizer.warmup_epochs={warmup} is longer than the run, trainer.max_epochs={epochs}: add optimizer.warmup_epochs=0, or "
            "a share of the run."
        )


def _count_classes(config: DictConfig) -> None:
    """``model.num_classes=null``: as many as the training data, or the run that the weights come from."""
    if "num_classes" not in config.model or config.model.num_classes is not None:
        return
    if config.task != "fit":
        run = named_run(config)
        config.model.num_classes = saved_config(run)["model"]["num_classes"] if run else _classes_in(Path(str(config.ckpt)))
        return
    root = config.data.get("root")
    if root is None and config.data.get("prepare") is not None:
        root = instantiate(config.data.prepare)()  # the digits: writes them unless they are there
    if root is None:
        _refuse_without_root(config)
    names = class_names(root)
    if len(names) < 2:
        raise UserError(f"{root}/train has one class only, {names[0]!r}: a classifier needs two subfolders or more.")
    config.model.num_classes = len(names)


def _classes_in(file: Path) -> int:
    classes = read_checkpoint(file).get("classes")
    if classes is None:
        raise UserError(f"{file} does not say how many classes it has: give model.num_classes=N.")
    return len(classes)


def _refuse_without_root(config: DictConfig) -> NoReturn:
    if "root" in config.data:
        raise UserError("data.root is not given: name a folder that holds train/ and val/ with one subfolder of pictures a class.")
    raise UserError("model.num_classes is null, and this data does not say how many classes it has: give model.num_classes=N.")


def _share_batch(config: DictConfig, ranks: int) -> None:
    per_device, together = config.data.get("batch_size_per_device"), config.global_batch_size
    if per_device is None:
        if together is None:
            raise UserError("Neither global_batch_size nor data.batch_size_per_device is given: set one.")
        if together < ranks or together % ranks:
            below = together // ranks * ranks
            nearest = " or ".join(str(size) for size in (below, below + ranks) if size)
            raise UserError(f"global_batch_size={together} cannot be shared equally by {ranks} ranks: use {nearest}.")
        config.data.batch_size_per_device = together // ranks
    else:
        config.global_batch_size = per_device * ranks

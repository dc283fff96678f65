"""From a resolved config to the objects it names."""

import logging
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import Checkpoint, ProgressBar
from omegaconf import DictConfig
from typing_extensions import override

from lightning_fastnet.cli.sentences import instantiation_sentence
from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.checkpoint_io import WholeFileCheckpointIO
from lightning_fastnet.launch.checkpoints import check_fits, read_checkpoint, relocate


@dataclass(frozen=True)
class Parts:
    """Module, data, Trainer, and the contents of the checkpoint that they begin with (None: from nothing)."""

    model: LightningModule
    data: LightningDataModule
    trainer: Trainer
    checkpoint: dict[str, Any] | None

    def test_split(self) -> dict[str, str]:
        """``test/split``: which folder ``test/top1`` was measured on, where the data says so."""
        return {"test/split": self.data.test_split} if hasattr(self.data, "test_split") else {}


def make_parts(config: DictConfig, callbacks: list[Callback]) -> Parts:
    """Instantiates what the config names.

    Args:
        callbacks: ours, beside those of the config when it trains.

    Raises:
        UserError: bad input, or a checkpoint of another model or other classes.
    """
    _quiet()
    seed_everything(config.seed, workers=True, verbose=False)
    training = config.task == "fit"
    checkpoint = read_checkpoint(Path(config.checkpoint)) if config.checkpoint else None
    data = _make(config.data)
    model = _make(config.model, optimizer=_make(config.optimizer))
    if checkpoint is not None:
        check_fits(Path(config.checkpoint), checkpoint["state_dict"], model.state_dict())
        _agree_on_classes(data, checkpoint, training)
        if training:
            _refuse_fewer_epochs(checkpoint, config.trainer.max_epochs)
        callbacks = [*callbacks, _Relocated(Path(config.run_dir) / "checkpoints")]
    made = [_make(callback) for callback in (config.get("callbacks") or {}).values()]
    if not training:
        made = [callback for callback in made if isinstance(callback, ProgressBar)]
    callbacks = [*callbacks, *made]
    logger: Any = False
    if training and config.get("logger"):
        resumed = checkpoint is not None and config.logger._target_.endswith("ResumableCSVLogger")
        logger = _make(config.logger, **({"from_step": checkpoint["global_step"]} if resumed and checkpoint else {}))
    trainer = _make(
        config.trainer,
        strategy=_make(config.strategy),
        plugins=[_make(config.precision), WholeFileCheckpointIO()],
        callbacks=callbacks,
        logger=logger,
        default_root_dir=config.run_dir,
        enable_checkpointing=any(isinstance(callback, Checkpoint) for callback in callbacks),
        enable_progress_bar=any(isinstance(callback, ProgressBar) for callback in callbacks),
    )
    return Parts(model, data, trainer, checkpoint)


class _Relocated(Callback):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @override
    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        relocate(checkpoint.get("callbacks", {}), self._folder)


def _quiet() -> None:
    """Leaves the terminal to the progress bar and the table: no hardware notices, no advice that the recipes already decided on."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    logging.getLogger("lightning.fabric").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="lightning.*")


def _agree_on_classes(data: Any, checkpoint: dict[str, Any], training: bool) -> None:
    trained_on = checkpoint.get("classes")
    if trained_on is None or not hasattr(type(data), "classes"):
        return
    if not training:
        data.classes = trained_on  # train/ need not be there any more
    elif list(data.classes) != list(trained_on):
        raise UserError(
            f"The checkpoint was trained on the classes {', '.join(trained_on)}; the data has {', '.join(data.classes)}: "
            "give the data that it was trained on, or start a run of its own without resume."
        )


def _refuse_fewer_epochs(checkpoint: dict[str, Any], epochs: int | None) -> None:
    done = checkpoint["loops"]["fit_loop"]["epoch_progress"]["current"]["processed"]
    if epochs is not None and -1 < epochs < done:
        raise UserError(f"trainer.max_epochs={epochs}, but the run that goes on has trained {done}: give at least that many.")


def _make(node: DictConfig, **arguments: Any) -> Any:
    try:
        return instantiate(node, **arguments, _convert_="all")
    except InstantiationException as error:
        raise UserError(instantiation_sentence(error)) from error

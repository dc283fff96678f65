"""ImageClassifier: any network that maps pictures to class scores, trained with cross-entropy."""

from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torchmetrics import MeanMetric
from torchmetrics.classification import MulticlassAccuracy

from lightning_fastnet.errors import UserError
from lightning_fastnet.optim.run_length import run_length

Batch = tuple[Tensor, Tensor]


class ImageClassifier(LightningModule):
    """Trains a network on ``(pictures, labels)`` and counts top-1 exactly, whatever the number of ranks and the last batch's size.

    Logs ``train/loss`` (last batch), and once an evaluation ``val/top1``, ``val/loss``, ``test/top1``, ``test/loss`` (top-1 as a
    share, 0 to 1).

    Args:
        network: pictures ``(N, C, H, W)`` to logits ``(N, num_classes)``.
        optimizer: called with the module, ``epochs`` and ``steps_per_epoch`` once the Trainer knows them; returns an optimizer and
            a scheduler to step once an optimizer step (see :mod:`lightning_fastnet.optim.scheduled`).
        num_classes: of the network's output.
        label_smoothing: of the training loss, 0 to 1.
        channels_last: keep pictures and weights in channels-last order (twice as fast for small convolutions on a CPU).

    Raises:
        UserError: the data has more classes than the network, or the Trainer's run has no end.
    """

    def __init__(
        self,
        network: nn.Module,
        optimizer: Callable[..., tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]],
        num_classes: int,
        *,
        label_smoothing: float = 0.0,
        channels_last: bool = False,
    ) -> None:
        super().__init__()
        self.memory_format = torch.channels_last if channels_last else torch.contiguous_format
        self.network = network.to(memory_format=self.memory_format)
        self.num_classes, self.label_smoothing = num_classes, label_smoothing
        self._optimizer = optimizer
        # Lightning's own mean of a logged value over ranks rounds the number of pictures a rank to a whole one; these do not
        self.top1 = nn.ModuleDict({split: MulticlassAccuracy(num_classes, average="micro") for split in ("val", "test")})
        self.loss = nn.ModuleDict({split: MeanMetric() for split in ("val", "test")})

    def setup(self, stage: str) -> None:
        if stage == "predict":  # pictures without classes
            return
        classes = getattr(getattr(self.trainer, "datamodule", None), "classes", None)
        if classes is not None and len(classes) > self.num_classes:
            raise UserError(f"The data has {len(classes)} classes, the network {self.num_classes}: set model.num_classes={len(classes)}.")

    def forward(self, pictures: Tensor) -> Tensor:
        logits: Tensor = self.network(pictures.to(memory_format=self.memory_format))
        return logits

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        pictures, labels = batch
        loss = cross_entropy(self(pictures), labels, label_smoothing=self.label_smoothing)
        self.log("train/loss", loss, batch_size=len(labels))
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self._evaluate("val", batch)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        self._evaluate("test", batch)

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Probabilities, ``(N, num_classes)``."""
        return torch.softmax(self(batch[0]).float(), dim=1)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Adds the names of the classes in the order of the outputs, as ``checkpoint["classes"]``, where the data knows them."""
        classes = getattr(getattr(self.trainer, "datamodule", None), "classes", None)
        if classes is not None:
            checkpoint["classes"] = list(classes)

    def _evaluate(self, split: str, batch: Batch) -> None:
        pictures, labels = batch
        logits = self(pictures)
        self.top1[split].update(logits, labels)  # type: ignore[operator]  # a ModuleDict only promises modules
        self.loss[split].update(cross_entropy(logits, labels), len(labels))  # type: ignore[operator]
        for name, metrics in (("top1", self.top1), ("loss", self.loss)):
            self.log(f"{split}/{name}", metrics[split], on_step=False, on_epoch=True, batch_size=len(labels))  # type: ignore[arg-type]

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optimizer, scheduler = self._optimizer(self, **run_length(self.trainer)._asdict())
        config: Any = {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}
        return config  # type: ignore[no-any-return]

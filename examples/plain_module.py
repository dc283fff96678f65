"""A LightningModule that knows nothing of lightning-fastnet, trained with its plugins.

python examples/plain_module.py              # two CPU ranks, or every GPU
"""

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class PlainModule(LightningModule):
    """Tells which of four quadrants of a noisy picture is the brightest."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 4)
        )

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        pictures, labels = batch
        loss = nn.functional.cross_entropy(self.network(pictures), labels)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        pictures, labels = batch
        accuracy = (self.network(pictures).argmax(1) == labels).float().mean()
        self.log("val_accuracy", accuracy, prog_bar=True, sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)


def pictures(count: int, seed: int) -> TensorDataset:
    """Noise with one brighter quadrant, and that quadrant's number."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(4, (count,), generator=generator)
    noise = torch.randn(count, 1, 16, 16, generator=generator)
    for index, label in enumerate(labels.tolist()):
        row, column = 8 * (label // 2), 8 * (label % 2)
        noise[index, :, row : row + 8, column : column + 8] += 0.5
    return TensorDataset(noise, labels)


def loaders() -> tuple[DataLoader[tuple[Tensor, ...]], DataLoader[tuple[Tensor, ...]]]:
    """Training and validation loaders."""
    return DataLoader(pictures(1024, seed=0), batch_size=32, shuffle=True), DataLoader(pictures(256, seed=1), batch_size=64)


if __name__ == "__main__":
    from lightning_fastnet import FusedAllReduceStrategy, StepProfile  # the three lines that the plugins take: this one,

    trainer = Trainer(
        max_epochs=3,
        devices="auto" if torch.cuda.is_available() else 2,
        strategy=FusedAllReduceStrategy(),  # this one
        callbacks=[StepProfile()],  # and this one
        logger=False,
        enable_checkpointing=False,
    )
    trainer.fit(PlainModule(), *loaders())

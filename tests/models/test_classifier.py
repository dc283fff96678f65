"""ImageClassifier counts exactly on any number of ranks, and trains the loss that it says."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningDataModule, Trainer
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lightning_fastnet import FusedAllReduceStrategy, ImageClassifier, UserError
from tests.helpers import run_ranks

SAMPLES, CLASSES = 23, 4
QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


class Batches:
    """A loader; a bare list would be several to Lightning."""

    def __init__(self, batches: list[tuple[Tensor, Tensor]]) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(self.batches)


def plain_sgd(module: nn.Module, *, epochs: int, steps_per_epoch: int) -> tuple[Any, Any]:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)


def classifier(num_classes: int = CLASSES, **settings: Any) -> ImageClassifier:
    """A small network, always with the same weights."""
    torch.manual_seed(1)
    network = nn.Sequential(nn.Conv2d(2, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(6 * 9, num_classes))
    return ImageClassifier(network, settings.pop("optimizer", plain_sgd), num_classes, **settings)


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(SAMPLES, 2, 8, 8, generator=generator), torch.randint(CLASSES, (SAMPLES,), generator=generator)


def part_of(rank: int, world_size: int, batch_size: int) -> Batches:
    pictures, labels = (whole[rank::world_size] for whole in data())
    return Batches(list(zip(pictures.split(batch_size), labels.split(batch_size), strict=True)))


def trainer_of(**settings: Any) -> Trainer:
    return Trainer(**{"accelerator": "cpu", "devices": 1, "use_distributed_sampler": False, "max_epochs": 1} | QUIET | settings)


def fit(model: ImageClassifier, batch_size: int = 10, **trainer: Any) -> Trainer:
    made = trainer_of(**trainer)
    made.fit(model, part_of(0, 1, batch_size), part_of(0, 1, SAMPLES))
    return made


def evaluate(rank: int, world_size: int, split: str, batch_size: int) -> dict[str, float]:
    strategy = FusedAllReduceStrategy() if world_size > 1 else "auto"
    trainer = trainer_of(devices=world_size, strategy=strategy)
    run = trainer.validate if split == "val" else trainer.test
    run(classifier(), part_of(rank, world_size, batch_size), verbose=False)
    return {name: float(value) for name, value in trainer.callback_metrics.items()}


def on_the_whole_set(split: str) -> dict[str, float]:
    pictures, labels = data()
    with torch.no_grad():
        logits = classifier().network(pictures)
    top1 = int((logits.argmax(1) == labels).sum()) / SAMPLES
    return {f"{split}/top1": pytest.approx(top1, abs=1e-7), f"{split}/loss": pytest.approx(float(cross_entropy(logits, labels)), rel=1e-6)}


# ---- evaluation ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["val", "test"])
def test_a_small_last_batch_counts_by_its_size(split):
    assert evaluate(0, 1, split, batch_size=10) == on_the_whole_set(split)


@pytest.fixture(scope="module", params=[5, 11])  # 12 and 11 samples: batches of 5 5 2 and 5 5 1, then of 11 1 and 11
def on_two_ranks(request) -> list[dict[str, float]]:
    return run_ranks(evaluate, 2, "val", request.param)


def test_two_ranks_with_uneven_counts_have_the_top1_of_the_whole_set(on_two_ranks):
    assert [metrics["val/top1"] for metrics in on_two_ranks] == [on_the_whole_set("val")["val/top1"]] * 2


def test_two_ranks_with_uneven_counts_have_the_loss_of_the_whole_set(on_two_ranks):
    assert [metrics["val/loss"] for metrics in on_two_ranks] == [on_the_whole_set("val")["val/loss"]] * 2


# ---- training ------------------------------------------------------------------------------------------------------------------------


def smoothed_by_hand(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    wanted = torch.full_like(logits, smoothing / CLASSES)
    wanted[torch.arange(len(labels)), labels] += 1 - smoothing
    return -(wanted * logits.log_softmax(1)).sum(1).mean()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_training_loss_is_smoothed_and_the_evaluation_loss_is_not(smoothing):
    model = classifier(label_smoothing=smoothing)
    pictures, labels = data()
    with torch.no_grad():
        before = model.network(pictures)
    logged = fit(model, batch_size=SAMPLES).callback_metrics
    with torch.no_grad():
        after = model.network(pictures)
    assert float(logged["train/loss"]) == pytest.approx(float(smoothed_by_hand(before, labels, smoothing)), rel=1e-6)
    assert float(logged["val/loss"]) == pytest.approx(float(cross_entropy(after, labels)), rel=1e-6)


def test_a_fit_is_the_plain_loop():
    model, plain = classifier(), classifier().network
    fit(model, max_epochs=3)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    for _ in range(3):
        for pictures, labels in part_of(0, 1, 10):
            optimizer.zero_grad()
            cross_entropy(plain(pictures), labels).backward()
            optimizer.step()
    for ours, theirs in zip(model.network.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_channels_last_computes_the_same():
    results = []
    for channels_last in (False, True):
        model = classifier(channels_last=channels_last)
        fit(model, max_epochs=2)
        logits = model(data()[0])
        results.append([logits, *model.parameters()])
        assert model.network[0].weight.is_contiguous(memory_format=torch.channels_last) == channels_last
    for contiguous, last in zip(*results, strict=True):
        torch.testing.assert_close(contiguous, last, rtol=1e-5, atol=1e-6)


def test_the_network_gets_pictures_in_the_chosen_memory_order():
    seen = []
    for channels_last in (False, True):
        model = classifier(channels_last=channels_last)
        model.network.register_forward_pre_hook(lambda _, args: seen.append(args[0].is_contiguous(memory_format=torch.channels_last)))
        model(data()[0])
    assert seen == [False, True]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_optimizer_hears_the_runs_length_and_its_scheduler_steps_with_it(accumulate):
    heard: dict[str, int] = {}
    rates: list[float] = []

    def recording(module: nn.Module, **length: int) -> tuple[Any, Any]:
        heard.update(length)
        optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
        optimizer.register_step_pre_hook(lambda opt, *_: rates.append(opt.param_groups[0]["lr"]))
        return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1))

    fit(classifier(optimizer=recording), batch_size=5, max_epochs=3, accumulate_grad_batches=accumulate)
    steps = math.ceil(5 / accumulate)  # 23 samples in batches of 5
    assert heard == {"epochs": 3, "steps_per_epoch": steps}
    assert rates == [1 / (step + 1) for step in range(3 * steps)]


@pytest.mark.parametrize("limits", [{"max_epochs": None, "max_steps": 12}, {"max_epochs": 9, "max_steps": 12}])
def test_a_run_given_in_steps_has_a_length_in_epochs(limits):
    heard: dict[str, float] = {}

    def recording(module: nn.Module, **length: float) -> tuple[Any, Any]:
        heard.update(length)
        return plain_sgd(module, epochs=0, steps_per_epoch=0)

    fit(classifier(optimizer=recording), batch_size=5, **limits)
    assert heard == {"epochs": 12 / 5, "steps_per_epoch": 5}


@pytest.mark.filterwarnings("ignore:.*no `max_epochs`.*")
def test_a_run_without_end_is_refused():
    with pytest.raises(UserError, match="max_epochs or max_steps"):
        fit(classifier(), batch_size=5, max_epochs=-1, max_time="00:00:00:09")


# ---- what is refused -----------------------------------------------------------------------------------------------------------------


class WithClasses(LightningDataModule):
    """Data of as many classes as it is told."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = [str(number) for number in range(classes)]

    def train_dataloader(self) -> Batches:
        return part_of(0, 1, 10)

    val_dataloader = train_dataloader


@pytest.mark.parametrize("classes", [3, 4])
def test_as_many_classes_as_the_network_has_or_fewer_will_do(classes):
    trainer_of().fit(classifier(), datamodule=WithClasses(classes))


def test_more_classes_than_the_network_has_are_refused():
    with pytest.raises(UserError, match=r"The data has 5 classes, the network 4: set model.num_classes=5"):
        trainer_of().fit(classifier(), datamodule=WithClasses(5))

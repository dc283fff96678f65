"""RunMetrics measures what a clock and a log would show, and metrics.json is whole, valid JSON."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer

from lightning_fastnet.optim.schedules import warmup_then_decay
from lightning_fastnet.report import run_metrics
from lightning_fastnet.report.run_metrics import RunMetrics, write_metrics


class Clock:
    """A time module that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def time(self) -> float:
        return self.now

    def perf_counter(self) -> float:
        return 7000 + self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(run_metrics, "time", clock)
    return clock


def trainer_of(world_size: int = 4, **settings) -> SimpleNamespace:
    return SimpleNamespace(
        **{"world_size": world_size, "sanity_checking": False, "callback_metrics": {}, "global_step": 0, "lr_scheduler_configs": []}
        | settings
    )


def train(metrics: RunMetrics, trainer: SimpleNamespace, clock: Clock, seconds: list[float], pictures: int = 8) -> None:
    for number, step in enumerate(seconds):
        clock.now += step
        metrics.on_train_batch_end(trainer, None, None, (torch.zeros(pictures, 1), torch.zeros(pictures)), number)


def validate(metrics: RunMetrics, trainer: SimpleNamespace, clock: Clock, seconds: float, **logged: float) -> None:
    metrics.on_validation_start(trainer, None)
    clock.now += seconds
    trainer.callback_metrics |= {name.replace("_", "/"): torch.tensor(value) for name, value in logged.items()}
    metrics.on_validation_end(trainer, None)


# ---- images/s ------------------------------------------------------------------------------------------------------------------------


def test_images_per_second_counts_all_ranks_and_leaves_out_first_steps_and_validation(clock):
    metrics, trainer = RunMetrics(), trainer_of(world_size=4)
    for _ in range(2):
        clock.now += 1000  # between epochs
        metrics.on_train_epoch_start(trainer, None)
        train(metrics, trainer, clock, [50, 2, 2])
        validate(metrics, trainer, clock, 1000)
        train(metrics, trainer, clock, [30, 4])
    assert metrics.images_per_second == pytest.approx(6 * 8 * 4 / (2 * (2 + 2 + 4)))


def test_images_per_second_is_unknown_before_two_batches(clock):
    metrics = RunMetrics()
    assert metrics.images_per_second is None
    train(metrics, trainer_of(), clock, [1])
    assert metrics.images_per_second is None


# ---- time to the target --------------------------------------------------------------------------------------------------------------


def test_the_time_to_the_target_is_that_of_the_first_evaluation_that_reached_it(clock):
    metrics, trainer = RunMetrics(target=0.97, started=90.0), trainer_of()
    reached = []
    for top1 in (0.5, 0.96, 0.97, 0.95, 0.99):
        validate(metrics, trainer, clock, 10, val_top1=top1)
        reached.append(metrics.seconds_to_target)
    assert reached == [None, None, 40, 40, 40]


def test_the_sanity_check_reaches_nothing(clock):
    metrics, trainer = RunMetrics(target=0.1), trainer_of(sanity_checking=True)
    validate(metrics, trainer, clock, 1, val_top1=1.0)
    assert metrics.seconds_to_target is None
    assert metrics.as_dict(trainer)["val/top1"] is None


def test_without_a_target_there_is_no_time(clock):
    metrics, trainer = RunMetrics(), trainer_of()
    validate(metrics, trainer, clock, 1, val_top1=1.0)
    assert metrics.as_dict(trainer)["time/to_target_seconds"] is None


def test_any_logged_metric_can_be_the_target(clock):
    metrics, trainer = RunMetrics(target=0.9, monitor="val/top5", started=100.0), trainer_of()
    validate(metrics, trainer, clock, 5, val_top1=0.95, val_top5=0.8)
    assert metrics.seconds_to_target is None
    validate(metrics, trainer, clock, 5, val_top1=0.0, val_top5=0.95)
    assert metrics.seconds_to_target == 10


# ---- the object ----------------------------------------------------------------------------------------------------------------------


def test_the_object_is_flat_and_null_where_nothing_was_measured(clock):
    held_back = [SimpleNamespace(scheduler=SimpleNamespace(skipped_steps=3)), SimpleNamespace(scheduler=object())]
    metrics, trainer = RunMetrics(started=40.0), trainer_of(world_size=2, global_step=17, lr_scheduler_configs=held_back)
    clock.now = 100.5
    expected = dict.fromkeys(("val/top1", "val/loss", "test/top1", "test/loss", "train/images_per_second", "time/to_target_seconds"))
    counted = {"trainer/global_step": 17, "trainer/world_size": 2, "optimizer/skipped_steps": 3}
    assert metrics.as_dict(trainer) == expected | counted | {"time/total_seconds": 60.5}


class Rising(LightningModule):
    """val/top1 is 0.0 after the first epoch, 0.25 after the second, ...; test/top1 is 0.875."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def training_step(self, batch: tuple[torch.Tensor, ...], batch_idx: int) -> torch.Tensor:
        return self.weight.sum()

    def validation_step(self, batch: tuple[torch.Tensor, ...], batch_idx: int) -> None:
        self.log("val/top1", 0.25 * self.current_epoch)
        self.log("val/other", 1.0)

    def test_step(self, batch: tuple[torch.Tensor, ...], batch_idx: int) -> None:
        self.log("test/top1", 0.875)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        scheduler = warmup_then_decay(optimizer, warmup_epochs=0, total_epochs=4, steps_per_epoch=3)
        scheduler.skipped_steps = 2
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


class Loader:
    """Three batches of 8."""

    def __len__(self) -> int:
        return 3

    def __iter__(self):
        return iter([(torch.zeros(8, 1), torch.zeros(8))] * 3)


def test_a_real_fit_fills_in_the_last_values_and_reaches_the_target_in_its_epoch():
    class Noting(RunMetrics):
        def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
            super().on_validation_end(trainer, pl_module)
            noted.append((self.values.get("val/top1"), self.seconds_to_target is not None))

    noted: list[tuple[float | None, bool]] = []
    metrics = Noting(target=0.5)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = Trainer(accelerator="cpu", devices=1, max_epochs=4, callbacks=[metrics], **quiet)
    trainer.fit(Rising(), Loader(), Loader())
    trainer.test(Rising(), Loader(), verbose=False)
    assert noted == [(None, False), (0.0, False), (0.25, False), (0.5, True), (0.75, True)]  # the first is the sanity check
    values = metrics.as_dict(trainer)
    assert (values["val/top1"], values["test/top1"], values["val/loss"]) == (0.75, 0.875, None)
    assert (values["trainer/global_step"], values["trainer/world_size"]) == (12, 1)
    assert values["optimizer/skipped_steps"] == 2
    assert 0 < values["time/to_target_seconds"] <= values["time/total_seconds"]
    assert values["train/images_per_second"] > 0


# ---- the file ------------------------------------------------------------------------------------------------------------------------


def test_the_file_holds_the_object(tmp_path):
    metrics = {"val/top1": 0.98125, "time/to_target_seconds": None, "trainer/global_step": 7}
    write_metrics(tmp_path / "metrics.json", metrics)
    assert json.loads((tmp_path / "metrics.json").read_text()) == metrics
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.json"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_diverged_runs_file_is_valid_json(tmp_path, value):
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    write_metrics(tmp_path / "metrics.json", {"val/loss": value, "val/top1": 0.1})
    assert json.loads((tmp_path / "metrics.json").read_text(), parse_constant=refuse)["val/top1"] == 0.1


def test_a_write_that_fails_half_way_leaves_the_old_file(tmp_path, monkeypatch):
    write_metrics(tmp_path / "metrics.json", {"val/top1": 0.5})
    write_text = Path.write_text

    def disk_full(file: Path, text: str) -> int:
        write_text(file, text[: len(text) // 2])
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "write_text", disk_full)
    with pytest.raises(OSError, match="No space left"):
        write_metrics(tmp_path / "metrics.json", {"val/top1": 0.75})
    assert json.loads((tmp_path / "metrics.json").read_text()) == {"val/top1": 0.5}

"""Time that a test puts into one phase must show in that phase; StepProfile must change nothing else."""

import csv
import time
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
import torch.distributed as dist
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lightning_fastnet.comm.hook import AllReduceState, all_reduce_hook
from lightning_fastnet.plugins import fused_all_reduce
from lightning_fastnet.plugins.fused_all_reduce import FusedAllReduceStrategy
from lightning_fastnet.plugins.step_profile import PHASES, StepProfile, verdict
from tests.helpers import run_ranks

SLEEP = 0.03  # seconds: far above what anything else in these steps takes
LATE = 0.2  # seconds that an all-reduce takes longer, in the one test of it
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),
    pytest.mark.filterwarnings("ignore:.*logging interval.*"),
    pytest.mark.filterwarnings("ignore:.*have no `val_dataloader`.*"),
]


class SlowLoader:
    """Eight batches, each late."""

    def __init__(self, seconds: float = 0.0, batches: int = 8) -> None:
        self.seconds, self.batches = seconds, batches

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Any:
        for index in range(self.batches):
            time.sleep(self.seconds)
            yield torch.full((4, 3), float(index))


class SlowBackward(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, value: Tensor, seconds: float) -> Tensor:
        context.seconds = seconds
        return value.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        time.sleep(context.seconds)
        return gradient, None


class SlowSGD(torch.optim.SGD):
    seconds = 0.0

    def step(self, closure: Any = None) -> Any:
        loss = super().step(closure)  # Lightning runs forward and backward inside the closure
        time.sleep(self.seconds)
        return loss


class Module(pl.LightningModule):
    """Sleeps in the phase it is told."""

    def __init__(self, slow: str = "nothing") -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.slow = slow

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        if self.slow == "forward":
            time.sleep(SLEEP)
        output = SlowBackward.apply(self.layer(batch), SLEEP if self.slow == "backward" else 0.0)
        return output.square().mean()  # type: ignore[no-any-return]

    def on_train_batch_end(self, *_: Any) -> None:
        if self.slow == "rest":
            time.sleep(SLEEP)

    def validation_step(self, batch: Tensor, batch_idx: int) -> None:
        if self.slow == "validation":
            time.sleep(SLEEP)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        optimizer = SlowSGD(self.parameters(), lr=1e-4)
        optimizer.seconds = SLEEP if self.slow == "optimizer" else 0.0
        return optimizer


def trainer(tmp_path: Path, *callbacks: pl.Callback, **settings: Any) -> pl.Trainer:
    return pl.Trainer(
        **{
            "accelerator": "cpu",
            "devices": 1,
            "max_epochs": 2,
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "callbacks": list(callbacks),
            "default_root_dir": tmp_path,
            **settings,
        }
    )


@pytest.mark.parametrize("slow", ["data", "forward", "backward", "optimizer", "rest"])
def test_time_shows_in_the_phase_that_spent_it(tmp_path: Path, slow: str) -> None:
    profile = StepProfile(print_summary=False)
    trainer(tmp_path, profile).fit(Module(slow), SlowLoader(SLEEP if slow == "data" else 0.0))
    means = profile.summary()
    assert means[f"profile/{slow}_ms"] >= 0.95 * 1e3 * SLEEP
    assert max(PHASES, key=lambda phase: means[f"profile/{phase}_ms"]) == slow
    assert means["profile/step_ms"] == pytest.approx(sum(means[f"profile/{phase}_ms"] for phase in PHASES))


def test_validation_is_no_part_of_a_step(tmp_path: Path) -> None:
    profile = StepProfile(print_summary=False)
    trainer(tmp_path, profile, val_check_interval=2).fit(Module("validation"), SlowLoader(), SlowLoader(batches=3))
    assert profile.summary()["profile/step_ms"] < 1e3 * SLEEP


def late_hook(state: AllReduceState, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    def wait(future: torch.futures.Future[Tensor]) -> Tensor:
        time.sleep(LATE)
        return future.value()

    return all_reduce_hook(state, bucket).then(wait)


def slow_all_reduce(rank: int, world_size: int, root: Path) -> dict[str, float]:
    fused_all_reduce.all_reduce_hook = late_hook
    profile = StepProfile(print_summary=False)
    try:
        trainer(root, profile, max_epochs=1, devices=world_size, strategy=FusedAllReduceStrategy()).fit(Module(), SlowLoader())
    finally:
        fused_all_reduce.all_reduce_hook = all_reduce_hook
    return profile.summary()


def test_communication_is_what_backward_does_not_hide(tmp_path: Path) -> None:
    for means in run_ranks(slow_all_reduce, 2, tmp_path):
        # what is left of backward when the bucket is sent hides a little of the wait
        assert means["profile/communication_ms"] >= 0.5 * 1e3 * LATE
        assert means["profile/backward_ms"] < 0.5 * 1e3 * LATE


def test_the_first_steps_are_not_counted(tmp_path: Path) -> None:
    class SlowStart(Module):
        def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
            if self.global_step < 2:
                time.sleep(1.0)
            return super().training_step(batch, batch_idx)

    profile = StepProfile(print_summary=False)
    trainer(tmp_path, profile).fit(SlowStart(), SlowLoader())
    assert profile.summary()["profile/step_ms"] < 60


@pytest.mark.parametrize(
    "settings", [{"accumulate_grad_batches": 2}, {"limit_train_batches": 3}, {"max_epochs": 1, "limit_val_batches": 0}]
)
def test_works_in_other_trainers(tmp_path: Path, settings: dict[str, Any]) -> None:
    profile = StepProfile(skip_steps=0, print_summary=False)
    trainer(tmp_path, profile, **settings).fit(Module("forward"), SlowLoader())
    assert profile.summary()["profile/forward_ms"] >= 0.95 * 1e3 * SLEEP


def test_manual_optimisation(tmp_path: Path) -> None:
    class Manual(Module):
        def __init__(self) -> None:
            super().__init__("backward")
            self.automatic_optimization = False

        def training_step(self, batch: Tensor, batch_idx: int) -> None:  # type: ignore[override]
            optimizer: Any = self.optimizers()
            loss = super().training_step(batch, batch_idx)
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()

    profile = StepProfile(print_summary=False)
    trainer(tmp_path, profile).fit(Manual(), SlowLoader())
    assert profile.summary()["profile/backward_ms"] >= 0.95 * 1e3 * SLEEP


def test_changes_nothing_else(tmp_path: Path) -> None:
    def weights(*callbacks: pl.Callback) -> Tensor:
        torch.manual_seed(0)
        module = Module()
        run = trainer(tmp_path, *callbacks)
        profiler = run.profiler  # type: ignore[attr-defined]
        run.fit(module, SlowLoader())
        assert run.profiler is profiler  # type: ignore[attr-defined]
        return module.layer.weight.detach()

    assert torch.equal(weights(StepProfile(print_summary=False)), weights())


def test_the_trainers_profiler_is_put_back_after_an_error(tmp_path: Path) -> None:
    class Broken(Module):
        def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
            raise RuntimeError("as the test wants")

    run = trainer(tmp_path, StepProfile())
    profiler = run.profiler  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="as the test wants"):
        run.fit(Broken(), SlowLoader())
    assert run.profiler is profiler  # type: ignore[attr-defined]


def test_logs_means_at_the_trainers_interval(tmp_path: Path) -> None:
    logger = CSVLogger(tmp_path, name="", version="")
    trainer(tmp_path, StepProfile(print_summary=False), logger=logger, log_every_n_steps=4).fit(Module("forward"), SlowLoader())
    with (tmp_path / "metrics.csv").open(newline="") as rows:
        logged = [row for row in csv.DictReader(rows) if row.get("profile/forward_ms")]
    assert [int(row["step"]) for row in logged][:4] == [3, 7, 11, 15]
    assert all(float(row["profile/forward_ms"]) >= 0.95 * 1e3 * SLEEP for row in logged)


def test_prints_the_table_and_the_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainer(tmp_path, StepProfile()).fit(Module(), SlowLoader(SLEEP))
    printed = capsys.readouterr().out
    assert all(phase in printed for phase in PHASES)
    assert "The loader limits this run" in printed


@pytest.mark.filterwarnings("ignore")  # the profiler's notes on a machine without a GPU
def test_the_phases_show_in_torchs_profiler(tmp_path: Path) -> None:
    with torch.profiler.profile() as recorded:
        trainer(tmp_path, StepProfile(print_summary=False)).fit(Module(), SlowLoader())
    counts = {event.key: event.count for event in recorded.key_averages()}
    for phase in ("data", "forward", "backward", "optimizer"):
        assert counts[f"fastnet::{phase}"] == 16, phase


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ({"data": 40}, "loader limits this run: 40 %"),
        ({"communication": 30}, "Communication is not hidden: 30 %"),
        ({"rest": 50}, "loop around the model"),
        ({"optimizer": 90, "forward": 5, "backward": 5}, "The optimizer limits"),
        ({"forward": 40, "backward": 55, "optimizer": 5}, "forward and backward take 95 %"),
    ],
)
def test_the_sentence_names_what_limits(shares: dict[str, float], words: str) -> None:
    filled = {phase: shares.get(phase, 0.0) for phase in PHASES}
    filled["forward"] += 100 - sum(filled.values())
    means = {f"profile/{phase}_ms": share / 10 for phase, share in filled.items()}
    assert words in verdict(means | {"profile/step_ms": 10.0})


def test_without_a_step_it_says_so() -> None:
    assert verdict({}) == "No step was counted."
    assert StepProfile().summary() == {}


def test_one_profile_for_a_loader_of_torch(tmp_path: Path) -> None:
    profile = StepProfile(print_summary=False)
    trainer(tmp_path, profile).fit(Module("forward"), DataLoader(TensorDataset(torch.ones(16, 3)), batch_size=4, collate_fn=first))
    assert profile.summary()["profile/forward_ms"] >= 0.95 * 1e3 * SLEEP


def first(rows: list[tuple[Tensor]]) -> Tensor:
    return torch.stack([row[0] for row in rows])

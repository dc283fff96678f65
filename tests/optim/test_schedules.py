"""The curve against closed-form values, and its length against the number of steps."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler as schedulers

from lightning_fastnet.errors import UserError
from lightning_fastnet.optim.schedules import learning_rate, linear_scaling_rule, warmup_then_decay


def test_seven_steps_seven_values() -> None:
    curve = [learning_rate(step, peak=1.0, warmup_steps=3, total_steps=7, decay="poly2") for step in range(8)]
    assert curve == pytest.approx([1 / 4, 2 / 4, 3 / 4, 1, (3 / 4) ** 2, (2 / 4) ** 2, (1 / 4) ** 2, 0])


@pytest.mark.parametrize(("decay", "middle"), [("constant", 1.0), ("linear", 0.5), ("poly2", 0.25)])
def test_the_middle_of_each_decay(decay: str, middle: float) -> None:
    assert learning_rate(50, peak=1.0, warmup_steps=0, total_steps=100, decay=decay) == pytest.approx(middle)


def test_past_the_end_the_last_value_stays() -> None:
    assert learning_rate(1000, peak=1.0, warmup_steps=2, total_steps=10, decay="linear") == 0.0


def test_epochs_become_optimizer_steps() -> None:
    """The same curve over epochs, whatever the number of steps in one."""

    def at_epoch(epoch: float, steps_per_epoch: int) -> float:
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=2.0)
        scheduler = warmup_then_decay(optimizer, warmup_epochs=1, total_epochs=4, steps_per_epoch=steps_per_epoch)
        for _ in range(round(epoch * steps_per_epoch)):
            optimizer.step()
            scheduler.step()
        return float(optimizer.param_groups[0]["lr"])

    for steps_per_epoch in (10, 40, 200):
        assert at_epoch(1, steps_per_epoch) == pytest.approx(2.0)
        assert at_epoch(2.5, steps_per_epoch) == pytest.approx(2.0 * 0.25)
        assert at_epoch(4, steps_per_epoch) == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"decay": "cosin"}, "cosin"),
        ({"warmup_epochs": 5}, "warmup_epochs=5"),
        ({"end_lr": -1.0}, "end_lr=-1.0"),
        ({"warmup_start": float("nan")}, "warmup_start=nan"),
        ({"decay": "steps"}, "give both or neither"),
        ({"milestones": [2]}, "give both or neither"),
        ({"decay": "steps", "milestones": [0.5]}, "must lie between"),
    ],
)
def test_refuses_what_does_not_fit(wrong: dict[str, object], words: str) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    settings = {"warmup_epochs": 1, "total_epochs": 4, "steps_per_epoch": 10, **wrong}
    with pytest.raises(UserError, match=words):
        warmup_then_decay(optimizer, **settings)


def by_torch(make: Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler], steps: int) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=2.0)
    scheduler = make(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize(
    ("settings", "theirs"),
    [
        ({"decay": "linear", "end_lr": 0.5}, lambda optimizer: schedulers.LinearLR(optimizer, 1.0, 0.25, total_iters=20)),
        ({"decay": "poly2"}, lambda optimizer: schedulers.PolynomialLR(optimizer, 20, power=2.0)),
        ({"decay": "poly", "power": 0.5}, lambda optimizer: schedulers.PolynomialLR(optimizer, 20, power=0.5)),
        ({"decay": "cosine", "end_lr": 0.3}, lambda optimizer: schedulers.CosineAnnealingLR(optimizer, 20, eta_min=0.3)),
        ({"decay": "steps", "milestones": [1, 3], "gamma": 0.2}, lambda optimizer: schedulers.MultiStepLR(optimizer, [5, 15], gamma=0.2)),
    ],
    ids=lambda value: value["decay"] if isinstance(value, dict) else "",
)
def test_each_decay_is_torchs(settings: dict[str, Any], theirs: Any) -> None:
    ours = by_torch(lambda optimizer: warmup_then_decay(optimizer, warmup_epochs=0, total_epochs=4, steps_per_epoch=5, **settings), 20)
    assert ours == pytest.approx(by_torch(theirs, 20), rel=1e-9, abs=1e-12)


def test_is_the_curve_of_the_mlperf_reference() -> None:
    """Warm-up from 0 in ``warm`` steps, then ``end + (lr - end) (1 - (step - warm) / (total - warm))^2``."""
    lr, warm, total, end = 24.699, 31 * 20, 85 * 20, 1e-4
    curve = {"peak": lr, "warmup_steps": warm, "total_steps": total, "decay": "poly2", "warmup_start": 0.0, "end_lr": end}
    for step in (0, 1, 300, warm, 1000, total - 1, total):
        wanted = lr * step / warm if step < warm else end + (lr - end) * (1 - (step - warm) / (total - warm)) ** 2
        assert learning_rate(step, **curve) == pytest.approx(wanted)


def test_a_step_that_was_skipped_on_overflow_holds_the_curve_back() -> None:
    """torch's own GradScaler, on the CPU: it leaves out the steps whose gradients are not finite."""
    weights = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=2.0)
    scheduler = warmup_then_decay(optimizer, warmup_epochs=0, total_epochs=1, steps_per_epoch=10, decay="linear")
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    rates = []
    for step in range(8):
        optimizer.zero_grad()
        scaler.scale(weights.sum() * (float("inf") if step in (0, 3, 4) else 1.0)).backward()
        rates.append(optimizer.param_groups[0]["lr"])
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
    assert rates == pytest.approx([2.0, 2.0, 1.8, 1.6, 1.6, 1.6, 1.4, 1.2])
    assert scheduler.skipped_steps == 3
    restored = warmup_then_decay(optimizer, warmup_epochs=0, total_epochs=1, steps_per_epoch=10, decay="linear")
    restored.load_state_dict(scheduler.state_dict())
    assert (restored.skipped_steps, restored.last_epoch) == (3, 5)


def test_each_group_goes_from_the_start_to_its_own_peak_and_to_the_end() -> None:
    groups = [{"params": [torch.zeros(1, requires_grad=True)], "lr": lr} for lr in (1.0, 4.0, 0.0)]
    optimizer = torch.optim.SGD(groups, lr=1.0)
    scheduler = warmup_then_decay(
        optimizer, warmup_epochs=1, total_epochs=2, steps_per_epoch=4, decay="linear", warmup_start=0.5, end_lr=0.25
    )
    rates = []
    for _ in range(9):
        rates.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    assert rates[0] == pytest.approx([0.5, 0.5, 0.0])
    assert rates[4] == pytest.approx([1.0, 4.0, 0.0])
    assert rates[8] == pytest.approx([0.25, 0.25, 0.0])


def test_linear_scaling() -> None:
    assert linear_scaling_rule(0.1, 256, 8192) == pytest.approx(3.2)
    with pytest.raises(UserError, match="at least 1"):
        linear_scaling_rule(0.1, 0, 8192)

"""The curve against closed-form values, and its length against the number of steps."""

import pytest
import torch

from lightning_fastnet.errors import UserError
from lightning_fastnet.optim.schedules import warmup_factor, warmup_then_decay


def test_seven_steps_seven_values() -> None:
    curve = [warmup_factor(step, warmup_steps=3, total_steps=7, decay="poly2") for step in range(8)]
    assert curve == pytest.approx([1 / 4, 2 / 4, 3 / 4, 1, (3 / 4) ** 2, (2 / 4) ** 2, (1 / 4) ** 2, 0])


@pytest.mark.parametrize(("decay", "middle"), [("constant", 1.0), ("linear", 0.5), ("poly2", 0.25)])
def test_the_middle_of_each_decay(decay: str, middle: float) -> None:
    assert warmup_factor(50, warmup_steps=0, total_steps=100, decay=decay) == pytest.approx(middle)


def test_past_the_end_the_last_value_stays() -> None:
    assert warmup_factor(1000, warmup_steps=2, total_steps=10, decay="linear") == 0.0


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


@pytest.mark.parametrize(("wrong", "words"), [({"decay": "cosin"}, "cosin"), ({"warmup_epochs": 5}, "warmup_epochs=5")])
def test_refuses_what_does_not_fit(wrong: dict[str, object], words: str) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    settings = {"warmup_epochs": 1, "total_epochs": 4, "steps_per_epoch": 10, **wrong}
    with pytest.raises(UserError, match=words):
        warmup_then_decay(optimizer, **settings)

"""LARS against torch's SGD, a float64 reference written here, and timm's Lars."""

import copy
from collections.abc import Callable

import pytest
import torch
from timm.optim.lars import Lars as TimmLars
from torch import Tensor, nn

from lightning_fastnet.errors import UserError
from lightning_fastnet.optim import lars as lars_module
from lightning_fastnet.optim.lars import LARS

SETTINGS = {"lr": 0.3, "momentum": 0.9, "weight_decay": 1e-3}


def network(seed: int = 0, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, 3)).to(dtype)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, start: int = 0, scheduled: bool = False) -> None:
    for step in range(start, start + steps):
        generator = torch.Generator().manual_seed(step)
        inputs = torch.randn(8, 6, generator=generator).to(next(model.parameters()).dtype)
        targets = torch.randint(3, (8,), generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        if scheduled:
            optimizer.param_groups[0]["lr"] = 0.3 / (1 + step)
        optimizer.step()


def assert_same_bits(one: nn.Module, other: nn.Module) -> None:
    for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_with_ratio_one_it_is_sgd_bit_for_bit(monkeypatch: pytest.MonkeyPatch, momentum: float, nesterov: bool) -> None:
    if nesterov and not momentum:
        pytest.skip("torch refuses Nesterov without momentum")
    monkeypatch.setattr(lars_module, "trust_ratio", lambda weight_norm, gradient_norm, **_: torch.ones(()))
    ours, theirs = network(), network()
    settings = {"lr": 0.3, "momentum": momentum, "weight_decay": 1e-3, "nesterov": nesterov}
    train(ours, LARS(ours.named_parameters(), exclude=(), **settings), 20, scheduled=True)
    train(theirs, torch.optim.SGD(theirs.parameters(), **settings), 20, scheduled=True)
    assert_same_bits(ours, theirs)


def test_excluded_parameters_take_the_plain_step_without_decay() -> None:
    ours, theirs = network(), network()
    train(ours, LARS(ours.named_parameters(), exclude=("weight", "bias"), **SETTINGS), 20)
    train(theirs, torch.optim.SGD(theirs.parameters(), lr=0.3, momentum=0.9), 20)
    assert_same_bits(ours, theirs)


def reference_step(weights: Tensor, gradient: Tensor, buffer: Tensor, adapted: bool, nesterov: bool) -> Tensor:
    """The published formula in float64."""
    lr, momentum, decay, coefficient = 0.3, 0.9, 1e-3, 0.02
    if adapted:
        weight_norm, gradient_norm = weights.square().sum().sqrt(), gradient.square().sum().sqrt()
        gradient = (gradient + decay * weights) * coefficient * weight_norm / (gradient_norm + decay * weight_norm)
    buffer.mul_(momentum).add_(gradient)
    return weights - lr * (gradient + momentum * buffer if nesterov else buffer)


@pytest.mark.parametrize("nesterov", [False, True])
def test_follows_the_float64_formula_for_100_steps(nesterov: bool) -> None:
    model = network(dtype=torch.float64)
    optimizer = LARS(model.named_parameters(), trust_coefficient=0.02, nesterov=nesterov, **SETTINGS)
    expected = [parameter.detach().clone() for parameter in model.parameters()]
    buffers = [torch.zeros_like(weights) for weights in expected]
    for step in range(100):
        train(model, optimizer, 1, start=step)
        for index, parameter in enumerate(model.parameters()):
            assert parameter.grad is not None
            expected[index] = reference_step(expected[index], parameter.grad, buffers[index], parameter.ndim > 1, nesterov)
        for parameter, weights in zip(model.parameters(), expected, strict=True):
            torch.testing.assert_close(parameter.detach(), weights, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("clip", [False, True])
def test_agrees_with_timm_for_100_steps(clip: bool) -> None:
    """Every parameter adapted and decayed: there the two definitions agree."""
    ours, theirs = network(), network()
    settings = {**SETTINGS, "trust_coeff": 0.02, "eps": 0.0}
    train(ours, LARS(ours.named_parameters(), trust_coefficient=0.02, clip=clip, exclude=(), **SETTINGS), 100)
    train(theirs, TimmLars(theirs.parameters(), always_adapt=True, trust_clip=clip, **settings), 100)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_parameters_that_start_at_zero_move() -> None:
    layer = nn.Linear(4, 4)
    nn.init.zeros_(layer.weight)
    optimizer = LARS(layer.named_parameters(), lr=0.1)
    layer(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    assert layer.weight.abs().min() > 0


def test_a_gradient_too_large_for_half_precision_norms_is_adapted_right() -> None:
    """65,504 is FP16's largest value; the squares of these would overflow it."""
    weights = nn.Parameter(torch.full((64, 64), 0.5, dtype=torch.float16))
    weights.grad = torch.full((64, 64), 3000.0, dtype=torch.float16)  # norm 192,000
    LARS([("w", weights)], lr=1.0, momentum=0.0, trust_coefficient=0.1).step()
    expected = 0.5 - 0.1 * (0.5 * 64) / (3000.0 * 64) * 3000.0
    torch.testing.assert_close(weights.detach(), torch.full((64, 64), expected, dtype=torch.float16), rtol=2e-3, atol=0)


def test_the_gradient_is_left_as_it_was() -> None:
    model = network()
    optimizer = LARS(model.named_parameters(), **SETTINGS)
    nn.functional.cross_entropy(model(torch.ones(2, 6)), torch.tensor([0, 1])).backward()
    before = [copy.deepcopy(parameter.grad) for parameter in model.parameters()]
    optimizer.step()
    for parameter, gradient in zip(model.parameters(), before, strict=True):
        assert gradient is not None
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, gradient)


def test_calls_the_closure_with_gradients_enabled_and_returns_its_value() -> None:
    layer = nn.Linear(2, 1)
    optimizer = LARS(layer.named_parameters(), lr=0.1)

    def closure() -> float:
        optimizer.zero_grad()
        layer(torch.ones(1, 2)).sum().backward()
        return 0.75

    before = layer.weight.detach().clone()
    assert optimizer.step(closure) == 0.75
    assert not torch.equal(layer.weight, before)


@pytest.mark.parametrize("make", [lambda model: model.named_parameters(), lambda model: model.parameters()])
def test_a_restored_state_gives_bit_equal_steps_and_keeps_the_exclusions(make: Callable[[nn.Module], object]) -> None:
    straight, stopped = network(), network()
    train(straight, LARS(make(straight), **SETTINGS), 10)
    first = LARS(make(stopped), **SETTINGS)
    train(stopped, first, 5)
    second = LARS(make(stopped), lr=99.0)
    second.load_state_dict(first.state_dict())
    train(stopped, second, 5, start=5)
    assert_same_bits(straight, stopped)
    assert second.param_groups[0]["excluded"] == [False, True, True, True, False, True]


def test_a_copy_still_takes_groups() -> None:
    """Later unfreezing: torch copies an optimizer by its groups, defaults and state alone."""
    optimizer = copy.deepcopy(LARS([("w", nn.Parameter(torch.ones(2, 2)))], lr=0.1))
    optimizer.add_param_group({"params": [("b", nn.Parameter(torch.ones(2)))]})
    assert [group["excluded"] for group in optimizer.param_groups] == [[False], [True]]


def test_one_word_is_a_word_and_not_its_letters() -> None:
    assert LARS(nn.Linear(3, 3).named_parameters(), lr=0.1, exclude="bias").param_groups[0]["excluded"] == [False, True]


def test_flags_of_a_group_are_taken_one_by_one() -> None:
    layer = nn.Linear(3, 3)
    assert LARS([{"params": layer.parameters(), "excluded": (True, False)}], lr=0.1).param_groups[0]["excluded"] == [True, False]
    with pytest.raises(UserError, match="2 parameters has 1 excluded flags"):
        LARS([{"params": layer.parameters(), "excluded": [True]}], lr=0.1)


def test_a_scheduler_still_acts() -> None:
    layer = nn.Linear(2, 2)
    optimizer = LARS(layer.named_parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"lr": -1.0}, "lr=-1.0"), ({"lr": 1.0, "momentum": 1.0}, "momentum"), ({"lr": 1.0, "momentum": 0.0, "nesterov": True}, "nesterov")],
)
def test_refuses_settings_out_of_range(settings: dict[str, float], words: str) -> None:
    with pytest.raises(UserError, match=words):
        LARS(nn.Linear(1, 1).parameters(), **settings)

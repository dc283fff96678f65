"""LARS against torch's SGD, a float64 reference written here, and timm's Lars."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from timm.optim.lars import Lars as TimmLars
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from lightning_fastnet.errors import UserError
from lightning_fastnet.optim import lars_update
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


both_forms = pytest.mark.parametrize("foreach", [False, True])


@both_forms
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_with_ratio_one_it_is_sgd_bit_for_bit(monkeypatch: pytest.MonkeyPatch, momentum: float, nesterov: bool, foreach: bool) -> None:
    if nesterov and not momentum:
        pytest.skip("torch refuses Nesterov without momentum")
    monkeypatch.setattr(lars_update, "trust_ratio", lambda weight_norms, gradient_norms, **_: torch.ones_like(weight_norms))
    ours, theirs = network(), network()
    settings = {"lr": 0.3, "momentum": momentum, "weight_decay": 1e-3, "nesterov": nesterov}
    train(ours, LARS(ours.named_parameters(), exclude=(), foreach=foreach, **settings), 20, scheduled=True)
    fused = not foreach and momentum != 0 and not nesterov  # the last bit differs between torch's own forms
    train(theirs, torch.optim.SGD(theirs.parameters(), fused=fused, **settings), 20, scheduled=True)
    assert_same_bits(ours, theirs)


@both_forms
def test_excluded_parameters_take_the_plain_step_without_decay(foreach: bool) -> None:
    ours, theirs = network(), network()
    train(ours, LARS(ours.named_parameters(), exclude=("weight", "bias"), foreach=foreach, **SETTINGS), 20)
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


@both_forms
@pytest.mark.parametrize("nesterov", [False, True])
def test_follows_the_float64_formula_for_100_steps(nesterov: bool, foreach: bool) -> None:
    model = network(dtype=torch.float64)
    optimizer = LARS(model.named_parameters(), trust_coefficient=0.02, nesterov=nesterov, foreach=foreach, **SETTINGS)
    expected = [parameter.detach().clone() for parameter in model.parameters()]
    buffers = [torch.zeros_like(weights) for weights in expected]
    for step in range(100):
        train(model, optimizer, 1, start=step)
        for index, parameter in enumerate(model.parameters()):
            assert parameter.grad is not None
            expected[index] = reference_step(expected[index], parameter.grad, buffers[index], parameter.ndim > 1, nesterov)
        for parameter, weights in zip(model.parameters(), expected, strict=True):
            torch.testing.assert_close(parameter.detach(), weights, rtol=1e-12, atol=1e-14)


@both_forms
@pytest.mark.parametrize("clip", [False, True])
def test_agrees_with_timm_for_100_steps(clip: bool, foreach: bool) -> None:
    """Every parameter adapted and decayed: there the two definitions agree."""
    ours, theirs = network(), network()
    settings = {**SETTINGS, "trust_coeff": 0.02, "eps": 0.0}
    train(ours, LARS(ours.named_parameters(), trust_coefficient=0.02, clip=clip, exclude=(), foreach=foreach, **SETTINGS), 100)
    train(theirs, TimmLars(theirs.parameters(), always_adapt=True, trust_clip=clip, **settings), 100)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


@both_forms
def test_parameters_that_start_at_zero_move(foreach: bool) -> None:
    layer = nn.Linear(4, 4)
    nn.init.zeros_(layer.weight)
    optimizer = LARS(layer.named_parameters(), lr=0.1, foreach=foreach)
    layer(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    assert layer.weight.abs().min() > 0


@both_forms
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("gradient", [3000.0, 6e-8])
def test_gradients_beyond_the_range_of_half_precision_norms_are_adapted_right(dtype: torch.dtype, gradient: float, foreach: bool) -> None:
    """65,504 is FP16's largest value, the norm here is 192,000; and 6e-8 its smallest, whose square is 0."""
    weights = nn.Parameter(torch.full((64, 64), 0.5, dtype=dtype))
    weights.grad = torch.full((64, 64), gradient, dtype=dtype)
    LARS([("w", weights)], lr=1.0, momentum=0.0, trust_coefficient=0.1, foreach=foreach).step()
    # ratio 0.1 * 0.5 / gradient, whatever the gradient
    torch.testing.assert_close(weights.detach(), torch.full((64, 64), 0.45, dtype=dtype), rtol=8e-3, atol=0)


def test_a_norm_below_1e_8_is_no_zero() -> None:
    weights = nn.Parameter(torch.ones(4, 4))
    weights.grad = torch.full((4, 4), 1e-12)
    LARS([("w", weights)], lr=1.0, momentum=0.0, trust_coefficient=0.1).step()
    torch.testing.assert_close(weights.detach(), torch.full((4, 4), 0.9), rtol=1e-6, atol=0)


def large_network(memory_format: torch.memory_format = torch.contiguous_format) -> nn.Sequential:
    """With a layer whose norm is summed in several rows, and a rest."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(40, 260, 5), nn.BatchNorm2d(260), nn.Flatten(), nn.Linear(260, 3))
    return model.to(memory_format=memory_format)


def gradients(model: nn.Module, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
        if parameter.ndim == 4 and not parameter.is_contiguous():
            parameter.grad = parameter.grad.to(memory_format=torch.channels_last)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("settings", [{}, {"nesterov": True}, {"momentum": 0.0}, {"weight_decay": 0.0}, {"clip": True}])
def test_both_forms_make_the_same_step(settings: dict[str, Any], memory_format: torch.memory_format, threads: int) -> None:
    models = [large_network(memory_format) for _ in range(2)]
    optimizers = [
        LARS(model.named_parameters(), foreach=foreach, **{**SETTINGS, **settings})
        for model, foreach in zip(models, (False, True), strict=True)
    ]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for step in range(4):
            for model, optimizer in zip(models, optimizers, strict=True):
                gradients(model, step)
                optimizer.step()
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


def test_tensors_in_another_order_of_memory_are_updated_right() -> None:
    """A gradient that lies otherwise than its weights; a weight that is no dense block of memory."""
    base = torch.randn(700, 400)
    for weights in (nn.Parameter(base.clone()), nn.Parameter(base.clone().t()), nn.Parameter(torch.randn(700, 800)[:, ::2])):
        expected = weights.detach().double()
        gradient = torch.randn(weights.shape, dtype=torch.float64)
        weights.grad = gradient.float().t().contiguous().t()
        optimizer = LARS([("w", weights)], lr=0.5, momentum=0.9, trust_coefficient=0.1)
        buffer = torch.zeros_like(expected)
        for _ in range(2):
            optimizer.step()
            buffer = 0.9 * buffer + gradient * 0.1 * expected.norm() / gradient.norm()
            expected = expected - 0.5 * buffer
        torch.testing.assert_close(weights.detach().double(), expected, rtol=1e-5, atol=1e-6)


class NoHostReads(TorchDispatchMode):
    """Counts operations; one that hands a value to Python would make the host wait for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations.append(str(func))
        if any(word in str(func) for word in ("_local_scalar_dense", "is_nonzero", "equal.default", "nonzero", "_to_copy")):
            raise AssertionError(f"{func} reads a value on the host")
        return func(*args, **(kwargs or {}))


def many(count: int) -> list[tuple[str, nn.Parameter]]:
    shapes = [(4, 3), (4,), (2, 3, 3, 3), (5, 2)]
    return [(f"layer{index}.weight", nn.Parameter(torch.rand(shapes[index % 4]) + 0.1)) for index in range(count)]


def resnet50() -> list[tuple[str, nn.Parameter]]:
    models = pytest.importorskip("torchvision.models")
    return [(name, nn.Parameter(torch.ones(parameter.shape[:2]))) for name, parameter in models.resnet50().named_parameters()]


@pytest.mark.parametrize("settings", [{}, {"nesterov": True}, {"clip": True, "eps": 1e-9}])
@pytest.mark.parametrize("make", [lambda: many(4), lambda: many(1000), resnet50], ids=["4", "1000", "resnet50"])
def test_the_batched_step_is_few_operations_and_reads_nothing_on_the_host(make: Callable[[], Any], settings: dict[str, Any]) -> None:
    parameters = make()
    optimizer = LARS(parameters, foreach=True, exclude=("layer1", "bn", "bias", "norm"), **{**SETTINGS, **settings})
    for _ in range(3):
        for _, parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        with NoHostReads() as mode:
            optimizer.step()
        assert 10 < len(mode.operations) <= 25, mode.operations
    assert len({flag for group in optimizer.param_groups for flag in group["excluded"]}) == 2


def test_a_parameter_whose_gradient_comes_later_begins_its_momentum_then() -> None:
    ours, theirs = network(), network()
    mine = LARS(ours.named_parameters(), exclude=("weight", "bias"), foreach=True, **SETTINGS)
    sgd = torch.optim.SGD(theirs.parameters(), lr=0.3, momentum=0.9)
    for step in range(4):
        for model, optimizer in ((ours, mine), (theirs, sgd)):
            gradients(model, step)
            if step < 2:
                model[0].weight.grad = None  # frozen at first
            optimizer.step()
    assert_same_bits(ours, theirs)


def test_what_is_excluded_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="lightning_fastnet"):
        optimizer = LARS(network().named_parameters(), lr=0.1)
        optimizer.step()
    assert [record.message for record in caplog.records] == [
        "LARS adapts 2 of 6 parameters; excluded from adaptation and weight decay: 0.bias, 1.weight, 1.bias, 3.bias."
    ]


def test_a_sparse_gradient_is_refused_in_a_sentence() -> None:
    embedding = nn.Embedding(5, 3, sparse=True)
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(UserError, match="sparse=False"):
        LARS(embedding.named_parameters(), lr=0.1).step()


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


@pytest.mark.parametrize("shape", [(3,), (100, 700), (40, 50, 51, 3), (4_000_000,)])
@pytest.mark.parametrize("arrange", [lambda x: x, lambda x: x.t() if x.ndim == 2 else x, lambda x: x[..., ::2]])
def test_norms_on_a_cpu_are_right_in_every_digit(shape: tuple[int, ...], arrange: Callable[[Tensor], Tensor]) -> None:
    """torch.linalg.vector_norm's own error on four million elements is 1e-4."""
    tensor = arrange(torch.randn(shape, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(lars_update.blocked_norm(tensor).double(), tensor.double().norm(), rtol=4e-7, atol=0)

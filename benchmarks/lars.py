"""What a LARS step costs beside the ones of timm and pytorch_optimizer.

    pip install timm pytorch_optimizer
    python -m benchmarks.lars

On the parameters of ResNet-50 and AlexNet, with 1 and 2 threads on a CPU (on the GPU where there is one): this project's LARS, the two
others' in their own default form, and torch's fused SGD, which is a lower bound: it computes no norms. One step of each in turn,
the first ones not counted. Bar: at most 1.0 times the faster of the two others; aim: 0.6.
"""

import statistics
import sys
import time
from collections.abc import Callable

import pytorch_optimizer
import torch
from timm.optim.lars import Lars as TimmLars
from torch import nn
from torchvision.models import alexnet, resnet50

from benchmarks.machine import machine_line
from lightning_fastnet import LARS
from lightning_fastnet.optim.param_groups import param_groups

SAMPLES, SKIPPED, BAR = 25, 3, 1.0
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SETTINGS = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}

SIDES: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "lightning_fastnet": lambda model: LARS(param_groups(model, 1e-4), **SETTINGS),
    "timm": lambda model: TimmLars(model.parameters(), **SETTINGS),
    "pytorch_optimizer": lambda model: pytorch_optimizer.LARS(model.parameters(), **SETTINGS),
    "fused SGD": lambda model: torch.optim.SGD(model.parameters(), fused=True, **SETTINGS),
}


def milliseconds(make_model: Callable[[], nn.Module]) -> dict[str, list[float]]:
    """The time of each step of each side, one step of each in turn, all on weights and gradients of their own."""
    models = {name: make_model().to(DEVICE) for name in SIDES}
    for model in models.values():
        for parameter in model.parameters():
            parameter.grad = 1e-3 * torch.randn_like(parameter)
    optimizers = {name: make(models[name]) for name, make in SIDES.items()}
    times: dict[str, list[float]] = {name: [] for name in SIDES}
    for _ in range(SKIPPED + SAMPLES):
        for name, optimizer in optimizers.items():
            _wait()
            started = time.perf_counter()
            optimizer.step()
            _wait()
            times[name].append(1000 * (time.perf_counter() - started))
    return {name: steps[SKIPPED:] for name, steps in times.items()}


def _wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def _cell(steps: list[float], peer: list[float]) -> str:
    low, middle, high = statistics.quantiles([mine / theirs for mine, theirs in zip(steps, peer, strict=True)], n=4)
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def main() -> None:
    """Prints the table; ends with status 1 where the bar is missed."""
    mine, *others = SIDES
    worst = 0.0
    print(f"| parameters | threads | {' | '.join(f'against {name}: median [quartiles]' for name in others)} |")
    print("|---|---|" + "---|" * len(others))
    for name, make_model in (("ResNet-50", lambda: resnet50(weights=None)), ("AlexNet", lambda: alexnet(weights=None))):
        for threads in (1, 2):
            torch.set_num_threads(threads)
            times = milliseconds(make_model)
            medians = {side: statistics.median(steps) for side, steps in times.items()}
            worst = max(worst, medians[mine] / min(medians["timm"], medians["pytorch_optimizer"]))
            cells = " | ".join(_cell(times[mine], times[other]) for other in others)
            print(f"| {name} | {threads} | {cells} |", flush=True)
            if DEVICE == "cuda":
                print(", ".join(f"{side} {median:.2f} ms" for side, median in medians.items()), file=sys.stderr)
                break
    print(f"\nThe time of a step, {SAMPLES} a side, in turn; {machine_line()}.")
    sys.exit(worst > BAR)


if __name__ == "__main__":
    main()

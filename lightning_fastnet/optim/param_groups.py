"""Which parameters take part in layer-wise adaptation and weight decay, and which take the plain step."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

NORM_LAYERS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.LocalResponseNorm, nn.CrossMapLRN2d)
"""Batch and instance norms (``_NormBase`` is torch's common parent of both), layer, group and RMS norms."""


def is_excluded(name: str | None, parameter: Tensor, exclude: Iterable[str]) -> bool:
    """Whether a parameter is left out of adaptation and weight decay, judged by its name and shape alone.

    ``"bias"`` matches a parameter whose last name is ``bias``; ``"norm"`` one with at most one dimension (a norm layer's scale and
    shift; without the module that is all there is to see); any other entry matches anywhere in the name. A parameter without a name
    is excluded by shape when either of the two words is given.

    Args:
        name: dotted name as in ``module.named_parameters()``, or None.
        exclude: the words.
    """
    words = {exclude} if isinstance(exclude, str) else set(exclude)
    if parameter.ndim <= 1 and ("norm" in words or (name is None and "bias" in words)):
        return True
    if name is None:
        return False
    if "bias" in words and name.rpartition(".")[2] == "bias":
        return True
    return any(word in name for word in words - {"bias", "norm"})


def param_groups(module: nn.Module, weight_decay: float = 0.0, exclude: Iterable[str] = ("bias", "norm")) -> list[dict[str, Any]]:
    """Two groups of a module's trainable parameters: adapted with weight decay, and excluded without.

    Norm layers are known by their type (:data:`NORM_LAYERS`), so that an affine norm over several dimensions is found and a
    one-dimensional weight of another layer is not taken for one. Either group may be missing; a shared parameter appears once.

    Returns:
        Groups of named parameters for :class:`~lightning_fastnet.optim.lars.LARS` or any torch optimizer
        (``excluded`` is an entry that the others ignore).
    """
    left_out = _excluded_in(module, exclude)
    adapted: list[tuple[str, Tensor]] = []
    excluded: list[tuple[str, Tensor]] = []
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            (excluded if id(parameter) in left_out else adapted).append((name, parameter))
    groups = (
        {"params": adapted, "weight_decay": weight_decay, "excluded": False},
        {"params": excluded, "weight_decay": 0.0, "excluded": True},
    )
    return [group for group in groups if group["params"]]


def regrouped(module: nn.Module, groups: Iterable[dict[str, Any]], exclude: Iterable[str] = ("bias", "norm")) -> list[dict[str, Any]]:
    """Another optimizer's groups for :class:`~lightning_fastnet.optim.lars.LARS`: the same parameters, excluded one by one.

    Args:
        module: knows the parameters' names and which layers are norms.
        groups: an optimizer's ``param_groups``; their other entries are kept.

    Returns:
        New groups; those given stay as they are.
    """
    left_out, names = _excluded_in(module, exclude), {id(parameter): name for name, parameter in module.named_parameters()}
    made = []
    for group in groups:
        own = [names.get(id(parameter)) for parameter in group["params"]]
        flags = [
            id(parameter) in left_out if name else is_excluded(None, parameter, exclude)
            for name, parameter in zip(own, group["params"], strict=True)
        ]
        named = [(name or "(not of the module)", parameter) for name, parameter in zip(own, group["params"], strict=True)]
        made.append({**{key: value for key, value in group.items() if key != "param_names"}, "params": named, "excluded": flags})
    return made


def _excluded_in(module: nn.Module, exclude: Iterable[str]) -> set[int]:
    """The ids of a module's excluded parameters."""
    words = {exclude} if isinstance(exclude, str) else set(exclude)
    of_norms = {
        id(parameter)
        for layer in module.modules()
        if "norm" in words and isinstance(layer, NORM_LAYERS)
        for parameter in layer.parameters(recurse=False)
    }
    by_name = {id(parameter) for name, parameter in module.named_parameters() if is_excluded(name, parameter, words - {"norm"})}
    return of_norms | by_name


def described(groups: Iterable[dict[str, Any]]) -> str:
    """Which parameters of LARS's groups are excluded, in one line: by name where they have one, else by shape."""
    adapted, excluded = 0, []
    for group in groups:
        names = group.get("param_names") or [f"one of shape {tuple(parameter.shape)}" for parameter in group["params"]]
        excluded += [name for name, out in zip(names, group["excluded"], strict=True) if out]
        adapted += len(names)
    listed = f"; excluded from adaptation and weight decay: {', '.join(excluded)}" if excluded else ""
    return f"{adapted - len(excluded)} of {adapted} parameters{listed}."

"""The table of numbers: complete, and true at its edges."""

from collections.abc import Iterator
from typing import Any

import pytest
from omegaconf import OmegaConf

from lightning_fastnet.cli.configs import recipe_names, shipped
from lightning_fastnet.cli.numbers import LIMITS, LISTS, NUMBERS, Number, check_numbers, shown
from lightning_fastnet.errors import UserError


def numbers(node: Any, prefix: str) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            yield from numbers(value, f"{prefix}.{name}" if prefix else name)
    elif isinstance(node, list):
        if any(isinstance(value, int | float) for value in node):
            yield prefix
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield prefix


FILES = [*shipped("conf").rglob("*.yaml"), *(shipped("recipes") / f"{name}.yaml" for name in recipe_names())]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_number_of_the_configs_is_in_a_table(file: Any) -> None:
    group = file.parent.name if file.parent.parent == shipped("conf") else ""
    node = OmegaConf.to_container(OmegaConf.load(file), resolve=False)
    assert set(numbers(node, group)) <= {*NUMBERS, *LISTS, *LIMITS}


def test_the_edges() -> None:
    below = Number(least=0, below=1)
    assert [below.is_low(0) or below.is_high(0), below.is_high(0.999), below.is_high(1), below.is_low(-0.001)] == [False, False, True, True]
    above = Number(above=0, most=1)
    assert [above.is_low(0), above.is_low(0.001), above.is_high(1), above.is_high(1.001)] == [True, False, False, True]


def test_a_config_without_the_keys_is_not_asked() -> None:
    check_numbers(OmegaConf.create({"trainer": {}, "optimizer": None}))


@pytest.mark.parametrize("key", [key for key, number in NUMBERS.items() if not number.null])
def test_null_is_no_number(key: str) -> None:
    config = OmegaConf.create()
    OmegaConf.update(config, key, None, force_add=True)
    with pytest.raises(UserError, match=f"^{key}=null must be a"):
        check_numbers(config)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "null"), (True, "true"), ("abc", "abc"), ("28", "'28'"), ("nan", "'nan'"), (1.5, "1.5"), (OmegaConf.create(["a", 1]), "[a,1]")],
)
def test_values_look_as_they_were_typed(value: Any, expected: str) -> None:
    assert shown(value) == expected

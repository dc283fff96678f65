"""Errors that are none of the known kinds still become one line."""

from typing import Any

import pytest
from hydra.errors import HydraException, InstantiationException
from hydra.utils import instantiate
from omegaconf import OmegaConf

from lightning_fastnet.cli.sentences import instantiation_sentence, sentence


def test_several_lines_become_one() -> None:
    assert sentence(HydraException("first\n\n  second\n")) == "first second"


def test_an_error_without_words_gives_its_name() -> None:
    assert sentence(HydraException("")) == "HydraException"


def instantiated(**config: Any) -> str:
    (key,) = config
    with pytest.raises(InstantiationException) as caught:
        instantiate(OmegaConf.create(config)[key], _convert_="all")
    return instantiation_sentence(caught.value)


def test_an_unknown_argument_gets_the_nearest_one() -> None:
    assert instantiated(trainer={"_target_": "lightning.pytorch.Trainer", "max_epoch": 1}) == (
        "trainer.max_epoch is no argument of Trainer (did you mean trainer.max_epochs?): correct it or leave it out."
    )


def test_the_key_is_the_whole_one_also_inside() -> None:
    network = {"_target_": "lightning_fastnet.models.networks.LeNet", "xyz": 3}
    assert instantiated(model={"_target_": "builtins.dict", "network": network}) == (
        "model.network.xyz is no argument of LeNet: correct it or leave it out."
    )


def test_what_the_class_said_is_passed_on() -> None:
    assert instantiated(timeout={"_target_": "datetime.timedelta", "minutes": "x"}) == (
        "timeout cannot be made, timedelta said: unsupported type for timedelta minutes component: str; change its values."
    )


def test_our_own_sentence_stays_as_it_is_however_deep() -> None:
    strategy = {"_target_": "lightning_fastnet.FusedAllReduceStrategy", "bucket_cap_mb": -1}
    said = instantiated(outer={"_target_": "builtins.dict", "strategy": strategy})
    assert said == "bucket_cap_mb=-1 must be above 0 (MiB), or None for torch's default."


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("lightning.pytorch.Trainerr", "No module named 'lightning.pytorch.Trainerr'"),
        ("no_such_package.Foo", "No module named 'no_such_package'"),
        ("", "Empty path"),
    ],
)
def test_a_class_that_is_not_there_is_named(target: str, why: str) -> None:
    assert instantiated(trainer={"_target_": target}) == (
        f"trainer._target_={target} cannot be imported ({why}): check its spelling, and that its package is installed."
    )


def test_a_class_that_hydra_refuses_is_one_line() -> None:
    said = instantiated(trainer={"_target_": "os.system", "command": "true"})
    assert said.startswith("Target 'os.system' is blocklisted")
    assert "\n" not in said
    assert said.endswith("(trainer)")

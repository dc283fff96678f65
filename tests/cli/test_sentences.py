"""Errors that are none of the known kinds still become one line."""

from hydra.errors import HydraException

from lightning_fastnet.cli.sentences import sentence


def test_several_lines_become_one() -> None:
    assert sentence(HydraException("first\n\n  second\n")) == "first second"


def test_an_error_without_words_gives_its_name() -> None:
    assert sentence(HydraException("")) == "HydraException"

"""The folder's name and place."""

import re
from pathlib import Path

import pytest

from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.run_folder import job_id, new_run_folder


def test_name_and_contents(tmp_path: Path) -> None:
    folder = new_run_folder(tmp_path, "quickstart", "4711")
    assert folder.parent == tmp_path / "quickstart"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_4711", folder.name)
    assert (folder / "checkpoints").is_dir()


def test_two_runs_in_the_same_second_have_two_folders(tmp_path: Path) -> None:
    assert len({new_run_folder(tmp_path, "quickstart") for _ in range(20)}) == 20


def test_is_absolute_when_the_place_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert new_run_folder("outputs", "quickstart").is_absolute()


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="outputs=FOLDER"):
        new_run_folder(tmp_path / "file", "quickstart")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "17"}, "17"),
        ({"TORCHELASTIC_RUN_ID": "none"}, None),
        ({"TORCHELASTIC_RUN_ID": "mine"}, "mine"),
        ({"TORCHELASTIC_RUN_ID": "mine", "SLURM_JOB_ID": "17"}, "17"),
    ],
)
def test_job_id(environ: dict[str, str], expected: str | None) -> None:
    assert job_id(environ) == expected

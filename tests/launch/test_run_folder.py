"""The folder's name and place."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.run_folder import claim, job_id, make_run_folder, new_run_folder, release_empty


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
        ({"TORCHELASTIC_RUN_ID": "24d1af2b-5928-4e72-a10c-255a61fb3ab4"}, "24d1af2b"),
        ({"TORCHELASTIC_RUN_ID": "mine", "SLURM_JOB_ID": "17"}, "17"),
    ],
)
def test_job_id(environ: dict[str, str], expected: str | None) -> None:
    assert job_id(environ) == expected


def test_a_folder_that_holds_a_run_is_refused(tmp_path: Path) -> None:
    make_run_folder(tmp_path / "run")
    make_run_folder(tmp_path / "run")  # nothing in it yet
    (tmp_path / "run" / "config.yaml").touch()
    with pytest.raises(UserError, match="holds a run already: go on with it by resume="):
        make_run_folder(tmp_path / "run")


CLAIM = """
import sys, time
from lightning_fastnet.launch.run_folder import claim
from pathlib import Path
with claim(Path(sys.argv[1])):
    print("claimed", flush=True)
    time.sleep(600)
"""


def test_only_one_process_works_in_a_folder_until_it_dies(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", CLAIM, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "claimed\n"
    with pytest.raises(UserError, match="Another process is running in"), claim(tmp_path):
        pass
    other.kill()
    other.wait()
    other.stdout.close()
    for _ in range(2):
        with claim(tmp_path):
            pass


def test_a_refused_run_leaves_no_folder(tmp_path: Path) -> None:
    outputs = tmp_path / "outputs"
    run = new_run_folder(outputs, "quickstart")
    (run / "config.yaml").touch()
    (run / "logs").mkdir()
    (run / "logs" / "rank1.log").touch()
    release_empty(run, outputs)
    assert list(tmp_path.iterdir()) == []


def test_what_a_run_left_behind_stays(tmp_path: Path) -> None:
    first, second, third = (new_run_folder(tmp_path / "outputs", "quickstart") for _ in range(3))
    (first / "checkpoints" / "last.ckpt").touch()
    (second / "metrics.csv").touch()
    for run in (first, second, third):
        release_empty(run, tmp_path / "outputs")
    assert set((tmp_path / "outputs" / "quickstart").iterdir()) == {first, second}


def test_a_folder_that_holds_anything_is_refused_and_nothing_of_it_is_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years")
    with pytest.raises(UserError, match="is not empty, and a run needs a folder of its own"):
        make_run_folder(tmp_path / "thesis")
    run = make_run_folder(tmp_path / "run")
    (run / "config.yaml").touch()
    (run / "notes.txt").touch()  # put there while it ran
    release_empty(run, tmp_path / "outputs")
    assert [path.name for path in run.iterdir()] == ["notes.txt"]


def test_an_evaluations_folder_says_so_and_has_no_checkpoints(tmp_path: Path) -> None:
    folder = new_run_folder(tmp_path, "quickstart", "17", "test")
    assert folder.name.endswith("_17_test")
    assert list(folder.iterdir()) == []

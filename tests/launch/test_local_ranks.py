"""Real processes: all run, the first error is told, nobody is left behind."""

import os
from pathlib import Path

import pytest

from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.local_ranks import RankFailedError, run_local_ranks


def run(what: str, folder: Path) -> None:
    os.environ.pop("OMP_NUM_THREADS", None)
    run_local_ranks("tests.launch.child", [what, str(folder)], 2, folder / "logs")


def assert_gone(folder: Path) -> None:
    for rank in (0, 1):
        pid = int((folder / f"rank{rank}").read_text().split()[2])
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_every_rank_runs_with_its_share_of_the_cores(tmp_path: Path) -> None:
    run("well", tmp_path)
    threads = str(max(1, (os.cpu_count() or 1) // 2))
    for rank in (0, 1):
        assert (tmp_path / f"rank{rank}").read_text().split()[:2] == ["2", threads]


def test_a_refusal_comes_back_as_the_sentence_alone(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        run("user_error", tmp_path)
    assert str(caught.value) == "rank 1 was told to refuse."
    assert_gone(tmp_path)


def test_an_error_comes_back_with_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(RankFailedError) as caught:
        run("error", tmp_path)
    assert "Traceback" in str(caught.value)
    assert str(caught.value).endswith("Rank 1 failed first, with RuntimeError: rank 1 was told to fail")
    assert_gone(tmp_path)


def test_a_killed_rank_is_named(tmp_path: Path) -> None:
    with pytest.raises(RankFailedError, match="Rank 1 failed first: it was ended by signal 9"):
        run("killed", tmp_path)
    assert_gone(tmp_path)

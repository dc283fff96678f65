"""Real processes: all run, the first error is told, nobody is left behind."""

import json
import os
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.local_ranks import RankFailedError, _how_early, run_local_ranks


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


@pytest.mark.parametrize(
    ("causes", "first"),
    [
        ({0: ("RuntimeError: reset by peer", 5, 1), 1: ("UserError: a sentence", 9, 2)}, 1),
        ({0: ("RuntimeError: reset by peer", 9, 1), 1: ("ValueError: the cause", 5, 1)}, 1),
        ({0: ("RuntimeError: reset by peer", 5, 1), 1: (None, 0, -9)}, 1),
        ({0: (None, 0, -15), 1: ("ValueError: the cause", 5, 1), 2: (None, 0, 143)}, 1),
    ],
)
def test_the_cause_is_told_and_not_what_followed(tmp_path: Path, causes: dict[int, tuple[str | None, int, int]], first: int) -> None:
    """Within a second, which is all that torch's own times can tell."""
    failures = []
    for rank, (message, age, exitcode) in causes.items():
        file = tmp_path / f"{rank}.json"
        if message:
            file.write_text(json.dumps({"message": {"message": message, "extraInfo": {"timestamp": "1000000000"}}}))
            os.utime(file, ns=(10**18 + age, 10**18 + age))
        failures.append(ProcessFailure(rank, 1, exitcode, str(file)))
    assert min(failures, key=_how_early).local_rank == first


def test_a_killed_rank_is_named(tmp_path: Path) -> None:
    with pytest.raises(RankFailedError, match="Rank 1 failed first: it was ended by signal 9"):
        run("killed", tmp_path)
    assert_gone(tmp_path)

"""Auto, too many, none: with the number of GPUs and cores set by the test."""

import os

import pytest

from lightning_fastnet.errors import UserError
from lightning_fastnet.launch import devices as devices_module
from lightning_fastnet.launch.devices import Devices, cores, cpu_threads, resolve_devices


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    has = {"gpus": 0, "cores": 8}
    monkeypatch.setattr(devices_module, "_gpu_count", lambda: has["gpus"])
    monkeypatch.setattr(os, "cpu_count", lambda: 1000)  # of the machine, which may lend us fewer
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(has["cores"])), raising=False)
    return has


@pytest.mark.parametrize(
    ("gpus", "cores", "accelerator", "devices", "expected"),
    [
        (0, 8, "auto", "auto", Devices("cpu", 2)),
        (0, 1, "auto", "auto", Devices("cpu", 1)),
        (4, 8, "auto", "auto", Devices("gpu", 4)),
        (4, 8, "auto", 3, Devices("gpu", 3)),
        (4, 8, "cpu", "auto", Devices("cpu", 2)),
        (0, 8, "cpu", 5, Devices("cpu", 5)),
        (0, 8, "cpu", 64, Devices("cpu", 64)),
    ],
)
def test_what_auto_means(machine: dict[str, int], gpus: int, cores: int, accelerator: str, devices: int | str, expected: Devices) -> None:
    machine.update(gpus=gpus, cores=cores)
    assert resolve_devices(accelerator, devices) == expected


@pytest.mark.parametrize(
    ("gpus", "accelerator", "devices", "words"),
    [
        (2, "auto", 4, "this machine has 2 GPUs"),
        (0, "gpu", "auto", "torch sees no GPU"),
        (0, "auto", 0, "at least 1"),
        (0, "auto", "two", "trainer.devices=two"),
        (0, "tpu", "auto", "trainer.accelerator=tpu"),
        (0, "auto", 65, "trainer.devices=65 is more than the 8 CPU cores here can carry: ask for at most 64"),
        (4, "cpu", 1000, "ask for at most 64"),
    ],
)
def test_refuses_what_is_not_there(machine: dict[str, int], gpus: int, accelerator: str, devices: int | str, words: str) -> None:
    machine["gpus"] = gpus
    with pytest.raises(UserError, match=words):
        resolve_devices(accelerator, devices)


def test_the_ranks_of_a_machine_fill_its_cores_once(machine: dict[str, int]) -> None:
    assert [cpu_threads(ranks) for ranks in (1, 2, 3, 16)] == [8, 4, 2, 1]


def test_without_affinity_the_machines_cores_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS has none."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores() == 1

"""The world is put back after every test; what a test needs is declared, not coded."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fresh-venv", action="store_true", help="also run the tests that install torch into a new venv")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "fresh_venv" in item.keywords and not config.getoption("--fresh-venv"):
            item.add_marker(pytest.mark.skip(reason="installs torch into a new venv: run with --fresh-venv"))
        if "gpu" in item.keywords and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a GPU"))


@pytest.fixture(autouse=True)
def _restored_world() -> Iterator[None]:
    environment, folder, threads = dict(os.environ), Path.cwd(), torch.get_num_threads()
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    yield
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The 5,000 digits as class folders, written once for all tests."""
    from lightning_fastnet.data.digits import write_digits

    return write_digits(tmp_path_factory.mktemp("data") / "digits")

"""``fastnet-train``: composes the config with Hydra, decides the run's folder, starts the ranks."""

import os
import sys
from pathlib import Path

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lightning_fastnet.cli import STARTED
from lightning_fastnet.cli.arguments import check_arguments
from lightning_fastnet.cli.configs import PROGRAM, register, shipped
from lightning_fastnet.cli.help import answer
from lightning_fastnet.cli.sentences import sentence
from lightning_fastnet.cli.settle import settle
from lightning_fastnet.cli.value_types import check_values
from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.devices import cpu_threads
from lightning_fastnet.launch.local_ranks import RankFailedError, run_local_ranks
from lightning_fastnet.launch.outside import agree, outside_rank
from lightning_fastnet.launch.run_folder import job_id, new_run_folder


def train(config: DictConfig) -> None:
    """Runs one composed config: here, on ranks of this machine that it starts, or as the rank that torchrun or srun made of us."""
    place = outside_rank()
    check_values(config)
    settle(config, place)

    def decide() -> str:
        return str(new_run_folder(config.outputs, config.recipe_name, job_id()))

    config.run_dir = decide() if place is None else agree(place, decide)
    resolved = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    assert isinstance(resolved, DictConfig)
    file = Path(config.run_dir) / "config.yaml"
    if place is None or place.rank == 0:
        OmegaConf.save(resolved, file)
        ranks = config.trainer.devices * config.trainer.num_nodes
        print(f"{config.recipe_name}: {ranks} {config.trainer.accelerator} rank(s), {file.parent}", file=sys.stderr, flush=True)
    if place is None and config.trainer.devices > 1:
        run_local_ranks("lightning_fastnet.cli.rank", [str(file)], config.trainer.devices, file.parent / "logs")
    else:
        os.environ.setdefault("OMP_NUM_THREADS", str(cpu_threads(config.trainer.devices)))
        from lightning_fastnet.cli.rank import run_rank

        run_rank(resolved)


def main() -> None:
    """Entry point. Bad input ends with one sentence and exit status 2, a run that fails with its first error and 1."""
    if (text := answer(sys.argv[1:])) is not None:
        print(text)
        return
    os.environ["FASTNET_STARTED"] = str(STARTED)  # for the ranks
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come to us, not to Hydra's own printer
    register()
    failed: list[Exception] = []

    def task(config: DictConfig) -> None:
        try:
            train(config)
        except Exception as error:  # Hydra would print a line of its own before it passes this on
            failed.append(error)

    command = hydra.main(version_base="1.3", config_path=str(shipped("conf")), config_name="train")(task)
    try:
        check_arguments(sys.argv[1:])
        command()
        if failed:
            raise failed[0]
    except UserError as error:
        _leave(str(error), 2)
    except (HydraException, OmegaConfBaseException) as error:
        _leave(sentence(error), 2)
    except RankFailedError as error:
        _leave(str(error), 1)
    except KeyboardInterrupt:
        _leave("interrupted", 130)


def _leave(message: str, status: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h")  # a rank that was ended may have left the cursor hidden behind its progress bar
    print(f"{PROGRAM}: {message}", file=sys.stderr, flush=True)
    sys.exit(status)


if __name__ == "__main__":
    main()

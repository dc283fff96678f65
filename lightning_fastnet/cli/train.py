"""``fastnet-train``: composes the config with Hydra, decides the run's folder, starts the ranks."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lightning_fastnet.cli import IN_SWEEP, STARTED
from lightning_fastnet.cli.arguments import check_arguments
from lightning_fastnet.cli.configs import PROGRAM, register, shipped
from lightning_fastnet.cli.help import answer
from lightning_fastnet.cli.run import Interrupted, run
from lightning_fastnet.cli.sentences import sentence
from lightning_fastnet.cli.sweep import Sweep
from lightning_fastnet.errors import UserError
from lightning_fastnet.launch.local_ranks import RankFailedError
from lightning_fastnet.launch.outside import outside_rank


def main() -> None:
    """Entry point. Bad input ends with one sentence and exit status 2, a run or a sweep's job that fails with its first error and 1."""
    if (text := answer(sys.argv[1:])) is not None:
        print(text)
        return
    sys.argv[1:] = sorted(sys.argv[1:], key=lambda word: word not in ("-m", "--multirun"))  # Hydra wants it before or after all else
    os.environ["FASTNET_STARTED"] = str(STARTED)  # for the ranks
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come to us, not to Hydra's own printer
    register()
    failed: list[Exception] = []
    sweep = Sweep()

    def task(config: DictConfig) -> Any:
        composed = HydraConfig.get()
        overrides = [str(one) for one in OmegaConf.to_container(composed.overrides.task, resolve=False)]  # type: ignore[union-attr]
        if composed.mode == RunMode.MULTIRUN:
            os.environ[IN_SWEEP] = "1"
            if composed.job.num > 0:
                os.environ["FASTNET_STARTED"] = str(time.time())  # a run's time is its own
            return sweep.job(Path(composed.sweep.dir), int(composed.job.num), overrides, lambda folder: run(config, overrides, folder))
        try:
            return run(config, overrides).get("val/top1")
        except Exception as error:  # Hydra would print a line of its own before it passes this on
            failed.append(error)
            return None

    command = hydra.main(version_base="1.3", config_path=str(shipped("conf")), config_name="train")(task)
    try:
        check_arguments(sys.argv[1:])
        _refuse_sweep_from_outside(sys.argv[1:])
        command()
        if failed:
            raise failed[0]
        sweep.finish()
    except UserError as error:
        _leave(str(error), 2)
    except (HydraException, OmegaConfBaseException) as error:
        _leave(sentence(error), 2)
    except RankFailedError as error:
        _leave(str(error), 1)
    except Interrupted as error:
        _leave(str(error), 130)
    except OSError as error:
        _leave(f"{error.filename} cannot be read or written ({error.strerror}).", 2)
    except KeyboardInterrupt:
        sweep.print_table()
        _leave("interrupted", 130)


def _refuse_sweep_from_outside(arguments: list[str]) -> None:
    if {"-m", "--multirun"} & set(arguments) and outside_rank() is not None:
        raise UserError("A sweep starts the ranks of its jobs itself: run it without torchrun or srun.")


def _leave(message: str, status: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h")  # a rank that was ended may have left the cursor hidden behind its progress bar
    print(f"{PROGRAM}: {message}", file=sys.stderr, flush=True)
    sys.exit(status)


if __name__ == "__main__":
    main()

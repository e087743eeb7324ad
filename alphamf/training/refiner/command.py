r"""Train a network from its configuration file, for example to reproduce a shipped one.

For example::

    python -m alphamf.training models/refiner-8k.toml --run RUN -o refiner-8k.npz

RUN then contains the mixtures, a checkpoint, a table of the losses (curves.csv) and the network
at the last score (network.npz). The same command continues a stopped run. With --check it stops at
the step of the configuration's [ladder], compares its loss with the recorded one and ignores -o.
Needs PyTorch: pip install 'alphamf[learn]'.
"""

import argparse
import hashlib
import shutil
import sys
from pathlib import Path

from alphamf.errors import AlphaMFError
from alphamf.tools.files import atomic_file, check_writable, printable_name, refuse_links
from alphamf.tools.pool import cores
from alphamf.tools.stopping import end_on_signals
from alphamf.training.refiner import config_file
from alphamf.training.refiner.run import NETWORK, Run, check, check_installed, train


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m alphamf.training",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path, metavar="CONFIG.toml")
    parser.add_argument(
        "--run",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder of the run; created if needed",
    )
    parser.add_argument(
        "--mixtures",
        type=Path,
        metavar="DIR",
        help="folder of the mixtures; runs with the same recipe can share it "
        "(default: RUN/mixtures)",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.npz", help="copy of the network")
    parser.add_argument(
        "--jobs",
        type=int,
        default=cores(),
        metavar="N",
        help="number of processes, and of threads (default: one per core)",
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="where the network is trained; with cuda the mixtures for later steps are made "
        "meanwhile (default: %(default)s)",
    )
    parser.add_argument(
        "--check", action="store_true", help="stop at the step of [ladder] and compare the loss"
    )
    asked = parser.parse_args()
    if asked.jobs < 1:
        parser.error(f"--jobs must be at least 1, not {asked.jobs}")
    return asked


def _tell(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    """Run the command ``python -m alphamf.training``; exit with status 2 after an AlphaMFError."""
    end_on_signals()
    asked = _arguments()
    try:
        if asked.output:
            check_writable(asked.output)
        check_installed(asked.device)
        found = config_file.load(asked.config)
        mixtures = asked.mixtures or asked.run / "mixtures"
        if not asked.mixtures:
            refuse_links(mixtures, asked.run)
        run = Run(found, asked.run, mixtures, asked.jobs, _tell, asked.device)
        if asked.check:
            _tell(check(run))
            return
        train(run)
        made = asked.run / NETWORK
        if asked.output:
            with atomic_file(asked.output) as part:
                shutil.copyfile(made, part)
        _tell(f"{printable_name(made)}: sha256 {hashlib.sha256(made.read_bytes()).hexdigest()}")
    except AlphaMFError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)

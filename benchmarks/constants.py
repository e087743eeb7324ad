"""Does a test see every number that a paper prints? ``python -m benchmarks.constants``.

Changes the numbers at module level of the experiments, one at a time and in memory, also those in
strings, such as the papers' columns of a table: a whole number by one, others by a tenth. Each time
``tests/research/experiments/test_constants.py`` must fail. Numbers of `OWN` are left out, because
no paper prints them. Prints those that no test sees; the exit code is 1 if there are any.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from benchmarks.report import options_of, run_main

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "alphamf" / "research" / "experiments"
TESTS = ROOT / "tests" / "research" / "experiments" / "test_constants.py"

SHARED = (
    "hypothesis",
    "typer.testing",
    "alphamf.denoising.sampling",
    "alphamf.inference.blocks",
    "alphamf.inference.samplers.registry",
    "alphamf.training.dictionary.api",
)
"""What the tests import besides the experiments: once, so that no fork has to."""

CELL = re.compile(r"(?:bias )?[-+.\de/, s]*\d[-+.\de/, s]*")
"""What a paper's cell of a table is in a string: numbers, and seconds."""

OWN = {
    "hamcmc/distributed_mf.py:SEGMENT": "steps between checkpoints",
    "hamcmc/distributed_mf.py:STEPS": "lengths of the runs",
    "hamcmc/distributed_mf.py:SEARCHED": "chosen on training ratings",
    "hamcmc/distributed_report.py:GOAL": "an RMSE that times are compared at",
    "hamcmc/distributed_report.py:ORDER": "the ranks, which label what figure 5 shows in words",
    "hamcmc/linear.py:POINTS": "N, not printed",
    "hamcmc/linear.py:CHAINS": "chains of each data set",
    "hamcmc/linear.py:CORRELATION": "the law of the regressors, not printed",
    "hamcmc/linear.py:SEARCHED": "chosen on a data set of their own",
    "hamcmc/quartic.py:STEP_SIZES": "a law that the paper does not have",
    "hamcmc/quartic.py:METHODS": "a law that the paper does not have",
    "hamcmc/speech.py:SWEPT, SWEPT_LONG": "clips of the Gibbs samplers, which are slow",
    "hamcmc/speech.py:PRINTED['HAMCMC, gamma 100']": "a row of our own: the inverse of its gamma",
    "hamcmc/speech.py:TUNED": "the best trials of our search",
    "hamcmc/speech.py:SAME_TIME": "from the times of our search",
    "hamcmc/speech.py:METHODS": "rows of our own: no sampler, another unit, all rows a step",
    "hamcmc/speech_chain.py:SPEECH_PRIOR": "chosen on training sentences",
    "hamcmc/speech_chain.py:SETTINGS": "no warm-up, so that all methods start alike",
    "hamcmc/speech_search.py:TRIALS": "our search",
    "hamcmc/speech_search.py:FAILED": "our search",
    "mass_em/synthetic.py:NORMAL['RHMC']['step_size']": "not printed",
    "mass_em/synthetic.py:NORMAL['SG-NPHMC']['step_size']": "not printed",
    "mass_em/synthetic.py:NORMAL['SGR-NPHMC']['step_size']": "not printed",
    "mass_em/synthetic.py:NORMAL['SGNHT']['step_size']": "not printed",
    "mass_em/synthetic.py:NORMAL['SGHMC']['step_size']": "not printed",
    "mass_em/synthetic.py:LOGISTIC['RHMC']": "not printed, and one of two that are",
    "mass_em/synthetic.py:LOGISTIC['SGR-NPHMC']['step_size']": "not printed",
    "mass_em/synthetic.py:LOGISTIC['SGR-NPHMC']['fixed_points']": "one of two that are printed",
    "mass_em/topics.py:LEAPS": "in a supplement",
    "mass_em/topics.py:SETTINGS": "in a supplement; ours are chosen on training documents",
    "quasi_newton/bpmf.py:WIDER": "a start of our own",
    "quasi_newton/bpmf.py:VARIANCE_X": "not printed",
    "quasi_newton/bpmf.py:VARIANCE": "not printed",
    "quasi_newton/bpmf.py:GAMMA": "not printed",
    "quasi_newton/gaussian.py:FAR": "a start of our own",
    "quasi_newton/mnist.py:GAMMA": "not printed",
    "quasi_newton/mnist.py:VARIANCE": "not printed",
    "richardson/factors.py:EVERY": "which predictions are averaged",
    "richardson/laws.py:FRICTION": "not printed in the main text",
    "richardson/rates.py:EXPONENTS": "not printed, but the best ones",
}
"""Names whose numbers no paper prints, as FILE:NAME or a key of it, and what they are."""


class Mutant(NamedTuple):
    """A number of a file that is changed: its file, its name, both values, and the new code."""

    file: Path
    name: str
    before: Any
    after: Any
    code: str


def mutants(file: Path) -> Iterator[Mutant]:
    """Yield a mutant for each number of the assignments at module level."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for statement in tree.body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        label = ast.unparse(target).strip("()")
        start = f"{file.relative_to(FOLDER).as_posix()}:{label}"
        for name, leaf in leaves(statement.value, start):
            before = leaf.value
            for after in changed(before):
                leaf.value = after
                yield Mutant(file, name, before, after, ast.unparse(tree))
            leaf.value = before


def leaves(node: ast.AST, name: str) -> Iterator[tuple[str, ast.Constant]]:
    """Yield the constants of an expression, with its name and the keys of dicts on the way."""
    if isinstance(node, ast.Constant):
        yield name, node
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None:
                yield from leaves(key, name)
            yield from leaves(value, f"{name}[{ast.unparse(key)}]" if key else name)
        return
    for child in ast.iter_child_nodes(node):
        yield from leaves(child, name)


def changed(value: Any) -> Iterator[Any]:
    """Yield the value with another number, for each number in it."""
    if type(value) is int:
        yield value + 1
    elif type(value) is float:
        yield 1.1 * value if value else 0.1
    elif type(value) is str and CELL.fullmatch(value):
        for digits in re.finditer(r"\d+", value):
            another = str(int(digits[0]) + 1).zfill(len(digits[0]))
            yield value[: digits.start()] + another + value[digits.end() :]


def is_caught(mutant: Mutant) -> bool:
    """Return whether the tests fail in a fork that imports the changed file."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    try:
        os._exit(_failures(mutant))
    finally:
        os._exit(2)


def _failures(mutant: Mutant) -> int:
    """Run the tests on a mutant, in silence, and return pytest's exit code."""
    plain = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> Any:
        if Path(loader.path) == mutant.file:
            return compile(mutant.code, loader.path, "exec")
        return plain(loader, fullname)

    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    options = ["-x", "--assert=plain", "-p", "no:cacheprovider"]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with patch.object(SourceFileLoader, "get_code", get_code):
        return int(pytest.main([*options, str(TESTS)]))


def main() -> None:
    """Change every number, and print those that no test sees."""
    parser = options_of("benchmarks.constants", __doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="such as richardson/laws.py")
    asked = parser.parse_args()
    files = [FOLDER / file for file in asked.files] or sorted(FOLDER.glob("*/*.py"))
    found = [mutant for file in files for mutant in mutants(file)]
    printed = [mutant for mutant in found if not is_own(mutant.name)]
    for module in SHARED:
        importlib.import_module(module)
    unseen = 0
    for mutant in printed:
        if not is_caught(mutant):
            unseen += 1
            print(f"{mutant.name}: {mutant.before!r} -> {mutant.after!r}", flush=True)
    print(
        f"{len(printed)} numbers that papers print: {len(printed) - unseen} caught; "
        f"{len(found) - len(printed)} of our own left out"
    )
    sys.exit(unseen > 0)


def is_own(name: str) -> bool:
    """Return whether a name, or what it is a part of, is in `OWN`."""
    return any(name == own or name.startswith(f"{own}[") for own in OWN)


if __name__ == "__main__":
    run_main(main)

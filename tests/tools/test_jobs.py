"""Results files: what is there is not done again, and the last result of a key counts."""

import math
import os

import pytest

from alphamf.errors import AlphaMFError
from alphamf.tools import jobs
from alphamf.tools.jobs import ResultsFile


@pytest.fixture
def file(tmp_path):
    """Name a file of numbers and their squares."""
    return ResultsFile(
        tmp_path / "below" / "squares.jsonl",
        key=lambda result: str(result[0]),
        encode=lambda result: {"version": "1", "number": result[0], "square": result[1]},
        decode=lambda item: (item["number"], item["square"]),
    )


def squares(file, numbers, *, done, **options):
    """Run jobs and return the results; `done` collects the numbers that were worked on."""

    def each(todo):
        for number in todo:
            done.append(number)
            yield number, number**2

    with file.lock("taken"):
        return list(jobs.run(file, numbers, each, key=str, known=file.last_results(), **options))


def test_what_is_known_comes_first_and_is_not_done_again(file):
    done = []
    assert squares(file, [1, 2], done=done) == [(1, 1), (2, 4)]
    assert squares(file, [3, 2, 1], done=done) == [(2, 4), (1, 1), (3, 9)]
    assert done == [1, 2, 3]
    assert list(file.read()) == [(1, 1), (2, 4), (3, 9)]


def test_a_result_that_is_not_usable_is_made_again_and_kept_if_it_differs(file):
    done = []
    squares(file, [2, 3], done=done)
    file.append((3, -1))
    found = squares(file, [2, 3], done=done, usable=lambda result: False)
    assert found == [(2, 4), (3, 9)] and done == [2, 3, 2, 3]
    assert list(file.read()) == [(2, 4), (3, 9), (3, -1), (3, 9)]
    assert file.last_results() == {"2": (2, 4), "3": (3, 9)}


LINES = {
    "another result": b'{"other": 1}',
    "a list": b"[]",
    "half a line": b'{"number": 2, "squ',
    "deep lists": b"[" * 100_000,
    "deep in a result": b'{"number": 2, "square": ' + b"[" * 100_000,
    "NaN": b'{"number": NaN, "square": 4}',
    "infinity": b'{"number": 2, "square": -Infinity}',
    "many digits": b"1" * 5000,
    "no UTF-8": b"\xff\xfe",
}


@pytest.mark.parametrize("line", LINES)
def test_lines_that_are_no_results_are_passed_over(file, line):
    squares(file, [1], done=[])
    with file.path.open("ab") as raw:
        raw.write(LINES[line])
    file.append((3, 9))
    assert list(file.read()) == [(1, 1), (3, 9)]


def test_results_of_other_types_are_passed_over(tmp_path):
    def decode(item):
        if isinstance(item["key"], float):
            raise TypeError
        return item["key"]

    file = ResultsFile(tmp_path / "x.jsonl", lambda key: key, lambda key: {"key": key}, decode)
    for key in ("a", {"b": 1}, [], 2.5, "c"):
        file.append(key)
    assert list(file.read()) == ["a", "c"] == list(file.last_results())


def test_what_is_no_number_is_written_as_null(file):
    with file.lock("taken"):
        file.append((math.nan, [1.5, math.inf, {"deep": -math.inf}]))
    assert file.path.read_bytes() == (
        b'{"version": "1", "number": null, "square": [1.5, null, {"deep": null}]}\n'
    )


@pytest.mark.skipif(os.name != "posix", reason="locks are POSIX")
def test_a_second_run_is_refused(file):
    with file.lock("taken"), pytest.raises(AlphaMFError, match="taken"), file.lock("taken"):
        pass


def test_a_file_that_cannot_be_made_or_written_is_one_sentence(file):
    file.path.parent.write_text("")
    with pytest.raises(AlphaMFError, match=r"below cannot be created: "), file.lock("taken"):
        pass
    file.path.parent.unlink()
    file.path.mkdir(parents=True)
    with pytest.raises(AlphaMFError, match="cannot be written"):
        file.append((1, 1))


def test_a_file_that_cannot_be_read_is_one_sentence(file):
    file.path.mkdir(parents=True)
    with pytest.raises(AlphaMFError, match=r"\.jsonl cannot be read: Is a directory"):
        file.last_results()

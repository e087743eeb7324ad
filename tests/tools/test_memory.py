"""The memory of a machine."""

from __future__ import annotations

from alphamf.tools import memory


def test_the_memory_of_this_machine_is_known():
    assert 2**27 < memory.total() < 2**50
    assert (
        memory.format_gigabytes(1.5e9) == "1.5 GB"
        and memory.format_gigabytes(2.5e15) == "2,500,000 GB"
    )

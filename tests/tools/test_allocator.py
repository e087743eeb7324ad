"""What is freed stays with the process, as long as it is told to keep it."""

import subprocess
import sys

import pytest

from alphamf.tools import machine

linux = pytest.mark.skipif(
    sys.platform != "linux", reason="glibc's allocator is the only one that is told"
)

KEPT = """
import numpy as np
from alphamf.tools import machine

def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

def left():
    before = held()
    for _ in range(2):
        array = np.ones(2**26 // 8)
        del array
    return round(held() - before)

print(left())
with machine.keep_freed_memory() as kept:
    print(kept, left())
print(left(), round(held()))
"""


@linux
def test_what_was_freed_is_kept_and_then_given_back():
    found = subprocess.check_output([sys.executable, "-c", KEPT], text=True).split()
    if "False" in found:
        pytest.skip("the C library is not glibc")
    before, kept, after, held = (int(each) for each in found if each != "True")
    assert kept >= 60
    assert before <= 2 and after <= 2 and held < 200


def test_the_memory_of_this_machine_is_known():
    assert 2**27 < machine.total_memory() < 2**50
    shown = [machine.format_gigabytes(size) for size in (1.5e9, 2.5e15)]
    assert shown == ["1.5 GB", "2,500,000 GB"]

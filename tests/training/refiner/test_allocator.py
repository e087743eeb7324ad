"""What a step of training frees stays with the process."""

import subprocess
import sys

import pytest

CODE = """
import numpy as np
from alphamf.training.refiner import allocator

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
with allocator.freed_kept() as kept:
    print(kept, left())
print(left(), round(held()))
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="glibc's allocator is the only one that is told"
)
def test_what_was_freed_is_kept_and_then_given_back():
    found = subprocess.check_output([sys.executable, "-c", CODE], text=True).split()
    before, told, kept, after, held = found
    if told == "False":
        pytest.skip("the C library is not glibc")
    assert int(kept) >= 60
    assert int(before) <= 2 and int(after) <= 2 and int(held) < 200

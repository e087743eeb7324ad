"""What a step of training frees stays with the process."""

import subprocess
import sys

import pytest

CODE = """
import sys
import numpy as np
from alphamf.training.refiner import allocator

def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

if sys.argv[1] == "kept":
    print(allocator.keep_freed())
before = held()
for _ in range(2):
    array = np.ones(2**25 // 8)
    del array
print(round(held() - before))
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="glibc's allocator is the only one that is told"
)
def test_what_was_freed_is_kept():
    def run(how):
        command = [sys.executable, "-c", CODE, how]
        return subprocess.check_output(command, text=True).split()

    known, kept = run("kept")
    if known == "False":
        pytest.skip("the C library is not glibc")
    assert int(kept) >= 30
    assert int(run("returned")[0]) <= 2

from typing import Any as Buffer  # collections.abc.Buffer is of Python 3.12

CHUNK: int
LANES: int
VARIANT: str

def normal(state: Buffer, out: Buffer, /) -> None: ...
def words(state: Buffer, out: Buffer, /) -> None: ...

from typing import Any as Buffer  # collections.abc.Buffer is of Python 3.12

CHUNK: int
LANES: int
SOURCES: int
VARIANT: str

def evaluate(want: int, power: Buffer, sources: tuple[Buffer, ...], /) -> list[int]: ...
def frame(
    steps: int,
    keep: int,
    alpha: float,
    less: float,
    exponent: float,
    context: int,
    channels: int,
    columns: int,
    buffers: tuple[Buffer, ...],
    /,
) -> int: ...
def stable(state: Buffer, h: float, out: Buffer, /) -> None: ...
def log(x: Buffer, out: Buffer, /) -> None: ...
def exp(x: Buffer, out: Buffer, /) -> None: ...
def sin(u: Buffer, out: Buffer, /) -> None: ...

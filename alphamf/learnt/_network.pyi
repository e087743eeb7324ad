from typing import Any as Buffer  # collections.abc.Buffer is of Python 3.12

VARIANT: str

def mix(
    distance: int,
    x: Buffer,
    scale: Buffer,
    shift: Buffer,
    taps: Buffer,
    frames: Buffer,
    out: Buffer,
    /,
) -> None: ...
def rectify(x: Buffer, bias: Buffer, /) -> None: ...
def add(x: Buffer, change: Buffer, bias: Buffer, /) -> None: ...
def pack(columns: int, matrix: Buffer, right: Buffer, /) -> None: ...
def multiply(x: Buffer, right: Buffer, out: Buffer, /) -> None: ...
def correlate(
    channels: int,
    bins: int,
    skip: int,
    steps: tuple[tuple[Buffer, Buffer, int, int], ...],
    cells: Buffer,
    out: Buffer,
    /,
) -> None: ...

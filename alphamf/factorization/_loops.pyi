from typing import Any as Buffer  # collections.abc.Buffer is of Python 3.12

CHUNK: int
LANES: int
VARIANT: str

def move(
    state: Buffer,
    h: float,
    power: Buffer,
    phi: Buffer,
    part: Buffer,
    rest: Buffer,
    sigma2: Buffer,
    /,
) -> int: ...
def weigh(exponent: float, v: Buffer, phi: Buffer, part: Buffer, /) -> None: ...
def slope(
    scale: float, power: Buffer, v: Buffer, part: Buffer, sigma2: Buffer, out: Buffer, /
) -> None: ...
def slopes(
    scale: float,
    power: Buffer,
    v: Buffer,
    part: Buffer,
    sigma2: Buffer,
    plus: Buffer,
    minus: Buffer,
    /,
) -> None: ...
def log(x: Buffer, out: Buffer, /) -> None: ...
def exp(x: Buffer, out: Buffer, /) -> None: ...
def sin(u: Buffer, out: Buffer, /) -> None: ...

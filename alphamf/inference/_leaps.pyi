from typing import Any as Buffer  # collections.abc.Buffer is of Python 3.12

VARIANT: str

def leap(
    regression: tuple[Buffer, Buffer, float, float, bool],
    chosen: Buffer,
    noise: Buffer,
    theta: Buffer,
    momentum: Buffer,
    thermostat: Buffer,
    numbers: tuple[float, float, float, float],
    /,
) -> None: ...

"""Exceptions for errors that the user can correct."""


class AlphaMFError(ValueError):
    """The error of a request that cannot be met; its message says in a sentence what is wrong.

    The command line prints the message and exits with code 2. Where the message has an argument in
    backquotes, the command line prints the option for this argument instead.

    Examples
    --------
    >>> from alphamf import denoise
    >>> try:
    ...     denoise([], 16000)
    ... except AlphaMFError as error:
    ...     print(error)
    audio must have the shape (samples,) or (samples, channels), not (0,)
    """


class DivergenceError(AlphaMFError):
    """The error of a chain whose position is no longer finite, or whose data are not finite.

    Examples
    --------
    >>> issubclass(DivergenceError, AlphaMFError)
    True
    """

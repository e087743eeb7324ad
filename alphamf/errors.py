"""The exceptions for what a user can mend."""


class AlphaMFError(ValueError):
    """A request that cannot be fulfilled; the message names the argument and the value.

    The command line prints the sentence and exits with code 2. An argument for which it has an
    option stands in backquotes; that option is printed in its place.

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
    """A chain whose position is no longer finite.

    Examples
    --------
    >>> issubclass(DivergenceError, AlphaMFError)
    True
    """

"""Records: statistics collected from all states of a run."""

from collections.abc import Callable
from typing import Any
from zlib import crc32

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.ranges import NOT_NEGATIVE, at_least, check_range
from alphamf.inference.schedule import step_size_at
from alphamf.tools.arrays import Array, namespace, to_host

Statistic = Callable[[Array, Any], Array]
"""A function of theta and the target, whose value has theta's leading chain axes."""


class Kept:
    """The steps that a record keeps: every `thin`-th one after the first `burn_in`."""

    burn_in: int
    thin: int

    def __init__(self, burn_in: int, thin: int = 1) -> None:
        check_range("burn_in", burn_in, NOT_NEGATIVE)
        check_range("thin", thin, at_least(1))
        self.burn_in, self.thin = burn_in, thin

    def keeps(self, step: int) -> bool:
        """Return whether the state after `step` steps is kept."""
        return step > self.burn_in and (step - self.burn_in) % self.thin == 0

    def _require(self, kept: Any) -> None:
        """Raise an AlphaMFError if no state was kept yet."""
        if not kept:
            raise AlphaMFError(f"no state was kept yet: burn_in is {self.burn_in}")


class Mean(Kept):
    """Mean and standard deviation of a statistic, over kept steps and leading chain axes.

    Steps after `burn_in` are kept, every `thin`-th of them. Welford's method updates mean and
    deviation, in the statistic's dtype, or in float64 if it returns integers or Booleans.

    Parameters
    ----------
    statistic
        Function of theta and the target, whose value has shape (*chains, ...).
    burn_in
        Number of steps that are dropped first; a negative one raises an AlphaMFError.
    thin
        Distance between kept steps; one below 1 raises an AlphaMFError.
    apart
        Number of theta's axes, directly before D, that are not averaged over, e.g. axes of clips.
    weight
        Positive weight of a step's values: a function of the step's index from 0, such as the step
        sizes if these decrease (for HAMCMC, `schedule.Held`). None: equal weights.

    Attributes
    ----------
    count
        Number of kept values: steps times chains.

    References
    ----------
    Chan, Golub & LeVeque, American Statistician 37 (1983), for several chains at once; Simsekli et
    al., ICML 2016, eq. 12, for the weights.

    Examples
    --------
    >>> from alphamf.inference.samplers.langevin import SGLDState
    >>> record = Mean(lambda theta, target: theta, burn_in=0)
    >>> for step, theta in enumerate([1.0, 2.0, 3.0], start=1):
    ...     record.add(SGLDState(np.array([theta]), step), None)
    >>> record.count, record.mean, record.std.round(3)
    (3, array([2.]), array([0.816]))
    """

    apart: int

    def __init__(
        self,
        statistic: Statistic,
        *,
        burn_in: int,
        thin: int = 1,
        apart: int = 0,
        weight: Callable[[int], float] | None = None,
    ) -> None:
        super().__init__(burn_in, thin)
        self.statistic = statistic
        self.weight = weight
        self.apart: int = apart
        self._total: float = 0  # sum of the weights of all values
        self.count: int = 0
        self._mean: Array
        self._square: Array  # sum of squared deviations from the mean

    def __repr__(self) -> str:
        name = _identified(self.statistic)
        weight = "" if self.weight is None else f", weight={self.weight!r}"
        return f"Mean({name}, burn_in={self.burn_in}, thin={self.thin}, apart={self.apart}{weight})"

    def add(self, state: Any, target: Any) -> None:
        if not self.keeps(state.step):
            return
        value = self.statistic(state.theta, target)
        if value.dtype.kind in "biu":
            value = value.astype(np.float64)
        axes = tuple(range(state.theta.ndim - 1 - self.apart))
        batch = int(np.prod(value.shape[: len(axes)]))
        mean = value.mean(axes) if axes else value
        if self.count == 0:
            xp = namespace(value)
            self._mean, self._square = xp.zeros_like(mean), xp.zeros_like(mean)
        weight = 1 if self.weight is None else step_size_at(self.weight, state.step - 1)
        self.count += batch
        self._total += weight * batch
        change = mean - self._mean
        self._mean += change * (weight * batch / self._total)
        change *= change
        change *= weight * batch * (self._total - weight * batch) / self._total
        self._square += change
        if axes:
            self._square += weight * ((value - mean) ** 2).sum(axes)

    @property
    def mean(self) -> Array:
        """Mean of kept values without averaged axes; raises an AlphaMFError if there are none."""
        self._require(self.count)
        return self._mean.copy()

    @property
    def std(self) -> Array:
        """Standard deviation of kept values; divisor: n, or the sum of weights; shape as `mean`."""
        self._require(self.count)
        return namespace(self._square).sqrt(self._square / self._total)

    def arrays(self) -> dict[str, Array]:
        count = {"count": np.asarray(self.count)}
        if self.weight is not None:
            count["total"] = np.asarray(self._total)
        return {**count, "mean": self._mean, "square": self._square} if self.count else count

    def load(self, arrays: dict[str, Array]) -> None:
        self.count = int(arrays["count"])
        self._total = self.count if self.weight is None else float(arrays["total"])
        if self.count:
            self._mean, self._square = arrays["mean"], arrays["square"]


class Trace(Kept):
    """A record of all kept values of a statistic, copied to the CPU.

    Parameters
    ----------
    statistic, burn_in, thin
        As in `Mean`.

    Examples
    --------
    >>> from alphamf.inference.samplers.langevin import SGLDState
    >>> record = Trace(lambda theta, target: theta**2, thin=2)
    >>> for step, theta in enumerate([1.0, 2.0, 3.0, 4.0], start=1):
    ...     record.add(SGLDState(np.array([theta]), step), None)
    >>> record.values
    array([[ 4.],
           [16.]])
    """

    def __init__(self, statistic: Statistic, *, burn_in: int = 0, thin: int = 1) -> None:
        super().__init__(burn_in, thin)
        self.statistic = statistic
        self._values: list[Array] = []

    def __repr__(self) -> str:
        name = _identified(self.statistic)
        return f"Trace({name}, burn_in={self.burn_in}, thin={self.thin})"

    def add(self, state: Any, target: Any) -> None:
        if self.keeps(state.step):
            self._values.append(np.array(to_host(self.statistic(state.theta, target))))

    @property
    def values(self) -> Array:
        """The kept values, shape (kept, ...); raises an AlphaMFError if there are none."""
        self._require(self._values)
        return np.stack(self._values)

    def arrays(self) -> dict[str, Array]:
        return {"values": self.values} if self._values else {}

    def load(self, arrays: dict[str, Array]) -> None:
        self._values = list(to_host(arrays["values"])) if arrays else []


class Extrapolated(Kept):
    r"""Richardson-Romberg estimate of a statistic's mean, from the states of SGRRLD or SGRRHMC.

    .. math:: \hat\pi(f) = \frac{\sum_k h_k \left[ f(\theta_{k - 1/2}) + f(\theta_k)
       - f(\theta'_k) \right]}{\sum_k h_k},

    averaged over chain axes, too; theta is the fine chain, theta' the coarse one, and h_k the size
    of kept step k. For SGRRMLD the bracket has the weights and positions of its states' `terms`.

    Parameters
    ----------
    statistic, burn_in
        As in `Mean`.

    Attributes
    ----------
    weight
        Sum of the step sizes h_k of the kept steps.

    References
    ----------
    Durmus et al., NIPS 2016, eq. 6, with each state weighted by the step size that led to it
    instead of the next one; the two differ by a boundary term.

    Examples
    --------
    >>> from alphamf.inference.samplers.richardson import SGRRLDState
    >>> record = Extrapolated(lambda theta, target: theta, burn_in=0)
    >>> fine, middle, coarse = np.array([1.1]), np.array([1.0]), np.array([1.2])
    >>> record.add(SGRRLDState(fine, 1, middle, coarse, 0.1), None)
    >>> record.mean.round(3)  # middle + fine - coarse
    array([0.9])
    """

    def __init__(self, statistic: Statistic, *, burn_in: int) -> None:
        super().__init__(burn_in)
        self.statistic = statistic
        self.weight: float = 0.0
        self._mean: Any = None

    def __repr__(self) -> str:
        return f"Extrapolated({_identified(self.statistic)}, burn_in={self.burn_in})"

    def add(self, state: Any, target: Any) -> None:
        if not self.keeps(state.step):
            return
        # The statistic may write into one buffer each time, so each value is scaled in a copy.
        value: Any = sum(
            weight * self.statistic(theta, target) for weight, theta in terms_of(state)
        )
        value = value.mean(tuple(range(state.theta.ndim - 1)))
        self.weight += state.size
        if self._mean is None:
            self._mean = value
        else:
            self._mean = self._mean + (value - self._mean) * (state.size / self.weight)

    @property
    def mean(self) -> Array:
        """The estimate, without the chain axes; raises an AlphaMFError if no state was kept yet."""
        self._require(self.weight)
        return self._mean.copy()

    def arrays(self) -> dict[str, Array]:
        weight = {"weight": np.asarray(self.weight)}
        if self._mean is None:
            return weight
        return {**weight, "mean": namespace(self._mean).asarray(self._mean)}

    def load(self, arrays: dict[str, Array]) -> None:
        self.weight = float(arrays["weight"])
        self._mean = arrays.get("mean")


def terms_of(state: Any) -> tuple[tuple[float, Array], ...]:
    """Return the positions of a state and their weights in `Extrapolated`: pairs, weight first."""
    if hasattr(state, "terms"):
        return state.terms
    return (1.0, state.middle), (1.0, state.theta), (-1.0, state.coarse)


def _identified(statistic: Statistic) -> str:
    """Return a statistic's name and the checksum of its code, if any: the same in every process."""
    name = getattr(statistic, "__qualname__", type(statistic).__qualname__)
    code = getattr(statistic, "__code__", None)
    if code is None:
        return str(name)
    # Other constants, such as sets and the code of inner functions, have no stable repr.
    constants = [each for each in code.co_consts if isinstance(each, (int, float, str))]
    text = repr((code.co_code, code.co_names, constants))
    return f"{name} {crc32(text.encode()):08x}"

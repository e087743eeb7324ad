"""Ratings of MovieLens-1M, split into training and test."""

from typing import Any

import numpy as np

from alphamf.inference.random import generator
from alphamf.inference.targets.bpmf import BPMF
from alphamf.research.corpora import find
from alphamf.tools.arrays import Array


class RatingSplit:
    """Training ratings, and test ratings: the probe set, or a fraction `hold_out` of the others."""

    def __init__(self, most_users: int | None = None, hold_out: float = 0.0) -> None:
        with np.load(find("ml-1m")) as file:
            users, ratings = file["user"].astype(np.int32) - 1, file["rating"].astype(np.float32)
            films, items = np.unique(file["item"], return_inverse=True)
            probe = file["probe"].copy()
        read = users < (most_users or len(users))
        test = read & probe
        if hold_out:
            test = read & ~probe & (generator(0).random(len(probe)) < hold_out)
        train = read & ~probe & ~test
        self.shape: tuple[int, int] = (int(users[read].max()) + 1, len(films))
        self.train: tuple[Any, Any, Any] = users[train], items[train], ratings[train]
        self.test: tuple[Any, Any, Any] = users[test], items[test], ratings[test]

    def target(self, **settings: Any) -> BPMF:
        """Return a `BPMF` posterior of the training ratings; `offset` is their mean by default."""
        mean = float(self.train[2].mean(dtype=np.float64))
        return BPMF(*self.train, shape=self.shape, **{"offset": mean, **settings})

    def rmse(self, predicted: Array, clip: bool = True) -> float:
        """Return the RMSE of predictions of the test ratings, clipped to [1, 5] first if `clip`."""
        predicted = predicted.clip(1, 5) if clip else predicted
        return float(np.sqrt(np.mean((predicted - self.test[2]) ** 2)))

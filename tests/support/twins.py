"""Wrong versions of samplers, targets and metrics, which a test of a law must reject."""

import math
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from alphamf.inference.metric import Dense
from alphamf.inference.samplers import hmc


def twin(sampler, draws):
    """Return a sampler of the same fields whose steps draw from a wrong generator."""

    class Twin(type(sampler)):
        def step(self, rng, state, target):
            return super().step(draws(rng), state, target)

    Twin.__qualname__ = f"{draws.__name__}{type(sampler).__name__}"
    return Twin(**{each.name: getattr(sampler, each.name) for each in fields(sampler)})


class Draws:
    """A generator that passes all draws on; subclasses change some."""

    def __init__(self, rng):
        self.rng = rng

    def __getattr__(self, name):
        return getattr(self.rng, name)


class HalfNoise(Draws):
    """Normal draws of half the variance, as where N(0, 2 h G) lacks its factor 2."""

    def standard_normal(self, *shape, **options):
        return self.rng.standard_normal(*shape, **options) / math.sqrt(2)


class Hot(Draws):
    """Normal draws of a variance 5 % too large."""

    def standard_normal(self, *shape, **options):
        return self.rng.standard_normal(*shape, **options) * math.sqrt(1.05)


class ColdFirst(Draws):
    """Normal draws whose first coordinate has a variance 10 % too small."""

    def standard_normal(self, *shape, **options):
        drawn = self.rng.standard_normal(*shape, **options)
        drawn[..., 0] *= math.sqrt(0.9)
        return drawn


class Alike(Draws):
    """Normal draws whose coordinates are correlated by .1."""

    def standard_normal(self, *shape, **options):
        drawn = self.rng.standard_normal(*shape, **options)
        shared = self.rng.standard_normal((*drawn.shape[:-1], 1))
        return math.sqrt(0.9) * drawn + math.sqrt(0.1) * shared


class Remembering(Draws):
    """Normal draws that are correlated by .1 with those before."""

    before: Any = 0.0

    def standard_normal(self, *shape, **options):
        drawn = math.sqrt(0.99) * self.rng.standard_normal(*shape, **options)
        drawn += 0.1 * Remembering.before
        Remembering.before = drawn.copy()  # samplers scale what they drew in place
        return drawn


class AcceptsAll(Draws):
    """Exponential draws beyond any energy difference: no Metropolis test."""

    def standard_exponential(self, shape, dtype):
        return np.full(shape, np.inf, dtype)


class OneSign(Draws):
    """Uniform draws that leave every sign as it is."""

    def random(self, shape, dtype):
        return np.ones(shape, dtype)


class Wrong:
    """A target whose potentials have methods replaced by functions of the right potential."""

    def __init__(self, target, **methods):
        self.target, self.methods = target, methods

    def __getattr__(self, name):
        return getattr(self.target, name)

    def draw(self, rng, theta):
        return WrongPotential(self.target.draw(rng, theta), self.methods)


class WrongPotential:
    """A potential of `Wrong`."""

    def __init__(self, right, methods):
        self.right, self.methods = right, methods

    def __getattr__(self, name):
        if name in self.methods:
            return partial(self.methods[name], self.right)
        return getattr(self.right, name)


def wrong_metric(metric, **methods):
    """Return a metric with methods replaced by functions of the right one and their arguments.

    The diagonal part of a dense metric has them replaced as well.
    """
    kind = type(metric)

    def method(function):
        return lambda self, *arguments: function(kind(*self), *arguments)

    made = {name: method(function) for name, function in methods.items()}
    if kind is Dense:
        made["diagonal"] = method(lambda right: wrong_metric(right.diagonal(), **methods))
    return type(f"Wrong{kind.__name__}", (kind,), made)(*metric)


def wrong_way(rng, before, after):
    """Accept with exp(H_1 - H_0), as the QNHMC paper prints."""
    return right_way(rng, after, before)


right_way = hmc.metropolis

"""Table of the networks' layers for BENCHMARKS.md: ``python -m benchmarks.networks [--write]``.

For every layer in a window: the compiled one, NumPy, and onnxruntime where that and onnx, which
makes its graphs, are installed; by turns, in one thread. The least process time of all rounds
counts. The floor is the time that NumPy takes for as many multiply-adds in a product of large
matrices. ALPHAMF_LOOPS chooses the copy of the compiled layers, and each copy has a section.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from alphamf.denoising.weights import find
from alphamf.learnt import compiled, layers, refiner, second_stage
from alphamf.learnt.network_file import TrainedNetwork
from alphamf.tools import tables
from alphamf.tools.arrays import Floats
from benchmarks import networks_onnx
from benchmarks.report import caption, publish

ROUNDS = 15
LARGE = 1024
"""Rows and columns of the matrices whose product is the floor."""
HEADINGS = ["network, layer", "10^6 a window", "ms", "over floor", "NumPy", "onnxruntime"]

Tasks = dict[str, Callable[[], Any]]


def with_numpy(p: dict[str, Floats], features: Floats) -> Tasks:
    """Return what NumPy does in each layer."""
    bins = features.shape[-2]
    x = layers.read_frames(p, features)
    maps = layers.feature_maps(p, x, bins)
    return {
        "first product": lambda: layers.read_frames(p, features),
        "blocks": lambda: layers.run_blocks(p, x, np),
        "maps": lambda: layers.feature_maps(p, x, bins),
        "correlations": lambda: layers.correlate_cells(p, features, maps, np),
        "all": lambda: layers.outputs(p, features, np),
    }


def with_compiled(p: dict[str, Floats], features: Floats) -> Tasks:
    """Return what the compiled layers do."""
    made = compiled.CompiledNetwork(p, features.shape[-2])
    cells = made.empty_cells(len(features))
    x = made.read_frames(features, cells)
    made.write_maps(x, cells)
    return {
        "first product": lambda: made.read_frames(features, cells),
        "blocks": lambda: made.run_blocks(x.copy()),
        "maps": lambda: made.write_maps(x, cells),
        "correlations": lambda: made.correlate_cells(cells),
        "all": lambda: made.outputs(features),
    }


def with_onnxruntime(p: dict[str, Floats], features: Floats) -> Tasks:
    """Return what onnxruntime does, or nothing where it is not installed."""
    try:
        import onnx
        import onnxruntime
    except ImportError:
        return {}
    del onnx, onnxruntime
    x = layers.read_frames(p, features)
    found = layers.feature_maps(p, x, features.shape[-2])
    planes = (np.ascontiguousarray(np.moveaxis(each, -1, 0)) for each in (features, found))
    cells, found = planes
    return dict(networks_onnx.sessions(p, cells, x, found))


def products(p: dict[str, Floats], bins: int) -> dict[str, int]:
    """Return the multiply-adds of each layer for a frame."""
    found = {
        "first product": p["in.weight"].size,
        "blocks": sum(v.size for k, v in p.items() if k.endswith((".up", ".down", ".taps"))),
        "maps": p["map.weight"].size,
        "correlations": bins * sum(v.size for v in p.values() if v.ndim == 4),
    }
    return {**found, "all": sum(found.values())}


def least(tasks: dict[tuple[str, str], Callable[[], Any]]) -> dict[tuple[str, str], float]:
    """Return the least process time of each task, all of them by turns."""
    found = dict.fromkeys(tasks, np.inf)
    for _ in range(ROUNDS):
        for key, task in tasks.items():
            begun = time.process_time()
            task()
            found[key] = min(found[key], time.process_time() - begun)
    return found


def rows(model: TrainedNetwork, frames: int) -> Iterator[list[str]]:
    """Yield the lines of a network that reads windows of so many frames."""
    rng = np.random.default_rng(0)
    bins = model.frame.bins
    features = rng.standard_normal((frames, bins, model.sizes.features)).astype(np.float32)
    matrix = rng.standard_normal((LARGE, LARGE)).astype(np.float32)
    ways = {"C": with_compiled, "NumPy": with_numpy, "onnxruntime": with_onnxruntime}
    tasks = {
        (name, layer): task
        for name, make in ways.items()
        for layer, task in make(model.parameters, features).items()
    }
    outputs = [task() for (_, layer), task in tasks.items() if layer == "all"]
    for other in outputs:
        planes = other if other.shape == outputs[0].shape else np.moveaxis(other, 0, -1)
        np.testing.assert_allclose(planes, outputs[0], atol=3e-2 * np.abs(outputs[0]).max())
    seconds = least({**tasks, ("floor", ""): lambda: matrix @ matrix})
    for layer, each in products(model.parameters, bins).items():
        own = seconds["C", layer]
        floor = seconds["floor", ""] * each * frames / LARGE**3
        ratios = [own / floor, *(seconds.get((k, layer), np.nan) / own for k in list(ways)[1:])]
        numbers = [f"{each * frames / 1e6:.0f}", f"{1000 * own:.2f}"]
        yield [f"{model.name}, {layer}", *numbers, *(f"{ratio:.2f}" for ratio in ratios)]


def main() -> None:
    """Print the table, and write it if the command line asks for it."""
    lines = []
    with threadpool_limits(1):
        for rate, kind, frames in (
            (8000, "refiner", refiner.WINDOW),
            (16000, "refiner", refiner.WINDOW),
            (16000, "second_stage", second_stage.WINDOW),
        ):
            lines += list(rows(getattr(find(rate), kind), frames))
    text = f"{tables.markdown(HEADINGS, lines)}\n\n"
    text += caption("benchmarks.networks", sys.argv[1:], ("alphamf", "numpy"))
    text += f" The copy {compiled.variant()} of the compiled layers."
    page = Path(__file__).parents[1] / "BENCHMARKS.md"
    publish(page, f"speed:networks-{compiled.variant()}", text, write="--write" in sys.argv)


if __name__ == "__main__":
    main()

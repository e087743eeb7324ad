"""Descriptions of dictionaries and networks for the user."""

from __future__ import annotations

from typing import Any

from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.network_file import TrainedNetwork
from alphamf.tools.files import printable


def summary(model: Dictionary | TrainedNetwork) -> str:
    """Describe the rate and size of a model in a few words."""
    if isinstance(model, TrainedNetwork):
        window = f"{1000 * model.frame.n_fft / model.rate:g} ms"
        return f"{model.rate} Hz, network for windows of {window}"
    frames = f"{model.context} frames" if model.context > 1 else "1 frame"
    return f"{model.rate} Hz, {model.rank} columns of {frames}, alpha {model.alpha:g}"


def details(model: Dictionary | TrainedNetwork) -> dict[str, str]:
    """Return the properties of a model, and the training details stored in its file.

    Unprintable characters, such as terminal escapes, are escaped.
    """
    rate, (n_fft, hop_length) = model.rate, model.frame
    lines = {
        "rate": f"{rate} Hz",
        "window": f"{n_fft} samples ({1000 * n_fft / rate:g} ms)",
        "hop": f"{hop_length} samples ({1000 * hop_length / rate:g} ms)",
    }
    if isinstance(model, Dictionary):
        lines |= {
            "columns": str(model.rank),
            "frames": f"{model.context} in a column",
            "alpha": f"{model.alpha:g}",
        }
    return {
        **lines,
        **{printable(str(key)): printable(str(value)) for key, value in model.about.items()},
    }


def facts(model: Dictionary | TrainedNetwork) -> dict[str, Any]:
    """Return the same properties as numbers for JSON."""
    rate, (n_fft, hop_length) = model.rate, model.frame
    found = {"name": model.name, "rate": rate, "n_fft": n_fft, "hop_length": hop_length}
    if isinstance(model, Dictionary):
        found |= {"columns": model.rank, "frames": model.context, "alpha": model.alpha}
    return {**found, "sha256": model.sha256, "about": dict(model.about)}

"""Write ``alphamf/native/_shared.h``: what the engine in C has in common with the Python code.

``python -m benchmarks.engine_constants`` writes it anew; run it after changing one of these values.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from alphamf.audio import floors
from alphamf.denoising import (
    activity,
    asymmetric_windows,
    faint_noise,
    grids,
    high_bands,
    spatial,
    uncertainty,
)
from alphamf.factorization import cells
from alphamf.learnt import bands, causal, high_band, network, packed, pauses, second_stage
from alphamf.tools import arrays
from benchmarks.report import options_of, run_main

HEADER = Path(__file__).parents[1] / "alphamf" / "native" / "_shared.h"

single = np.float32
late, high = zip(*network.DEEP, strict=True)

TABLE: list[tuple[Any, dict[str, Any]]] = [
    (arrays, {"LOG_LIMIT": single(arrays.LOG_LIMIT), "LARGEST_PHI": single(np.exp(60.0))}),
    (
        cells,
        {
            "TINY": single(cells.TINY),
            "LARGEST": single(cells.LARGEST),
            "FLOOR": single(cells.FLOOR),
        },
    ),
    (
        network,
        {
            "FEATURES": network.FEATURES,
            "OUTPUTS_OF_CELL": network.OUTPUTS,
            "ADDED": network.ADDED,
            "TAPS": network.TAPS,
            "DILATIONS": network.DILATIONS,
            "MOST_DEEP": len(network.DEEP),
            "LATE_FRAMES": late,
            "HIGH_BINS": high,
            "LOGIT": single(network.LOGIT),
            "LEAK": single(network.SLOPE),
            "NORM_EPSILON": single(network.NORM_EPSILON),
            "NARROWEST": single(network.NARROWEST),
            "SILENT": single(network.SILENT),
        },
    ),
    (causal, {"EDGE_LOW": causal.EDGE[0], "EDGE_HIGH": causal.EDGE[1]}),
    (packed, {"ALIGNMENT": packed.ALIGNMENT, "PANEL": packed.PANEL, "BIAS": packed.BIAS}),
    (
        second_stage,
        {
            "SILENT_PAIR": single(second_stage.SILENT),
            "MOST_SPEECH": single(second_stage.MOST),
            "CHANGE": single(second_stage.CHANGE),
            "START_OF_SOUND": single(second_stage.START[0]),
            "START_OF_SPEECH": single(second_stage.START[1]),
        },
    ),
    (
        pauses,
        {
            "AROUND": pauses.AROUND,
            "IN_PAUSES": single(pauses.IN_PAUSES),
            "IN_PAUSES_ABOVE": single(high_band.IN_PAUSES),
            "SPEECH_DB": single(pauses.SPEECH_DB),
            "PAUSE_DB": single(pauses.PAUSE_DB),
            "TINY_POWER": single(pauses.TINY),
        },
    ),
    (
        bands,
        {
            "BANDS": bands.COUNT,
            "BELOW": bands.BELOW,
            "FIRST_HZ": bands.FIRST_HZ,
            "LAST_HZ": bands.LAST_HZ,
        },
    ),
    (
        high_bands,
        {"CROSSED_FROM": high_bands.CROSSED[0], "CROSSED_TO": high_bands.CROSSED[1]},
    ),
    (grids, {"BAND_LOW": grids.BAND_TOP[0], "BAND_HIGH": grids.BAND_TOP[1]}),
    (
        asymmetric_windows,
        {
            "FRAME_HOPS": asymmetric_windows.FRAME_HOPS,
            "SYNTHESIS_HOPS": asymmetric_windows.SYNTHESIS_HOPS,
        },
    ),
    (
        activity,
        {
            "SPEECH_LOW": activity.BAND[0],
            "SPEECH_HIGH": activity.BAND[1],
            "SPAN": activity.SPAN,
            "RATIO_MOST": activity.RATIO[1],
            "LEVEL_LEAST": activity.LEVEL[0],
            "WEIGHTS": activity.WEIGHTS,
        },
    ),
    (spatial, {"SHARED": single(spatial.SHARED)}),
    (
        uncertainty,
        {
            "DEVIATION_SCALE": single(uncertainty.CHOSEN.scale),
            "DEVIATION_POWER": single(uncertainty.CHOSEN.power),
            "DEVIATION_LEAST": single(uncertainty.CHOSEN.least),
            "FAINT": uncertainty.CHOSEN.faint,
            "FAINT_STD": single(uncertainty.CHOSEN.faint_std),
            "BEND": uncertainty.CHOSEN.bend,
        },
    ),
    (
        faint_noise,
        {
            "FAINT_MOST_DB": single(faint_noise.MOST_DB),
            "STEEPNESS": floors.STEEPNESS,
        },
    ),
]


def literal(value: Any) -> str:
    """Return a value as C writes it; `numpy.float32` is single precision, float is double."""
    if isinstance(value, tuple):
        return "{" + ", ".join(literal(each) for each in value) + "}"
    if isinstance(value, np.floating) and not isinstance(value, float):
        text = f"{float(str(value))!r}f"
    else:
        text = repr(value)
    return f"({text})" if text.startswith("-") else text


def header() -> str:
    """Return the text of the header."""
    lines = [
        "/* Made by `python -m benchmarks.engine_constants` from the Python modules named here. */",
        "#ifndef ALPHAMF_SHARED_H",
        "#define ALPHAMF_SHARED_H",
    ]
    for module, values in TABLE:
        lines += ["", f"/* {module.__name__} */"]
        lines += [f"#define {name} {literal(value)}" for name, value in values.items()]
    return "\n".join([*lines, "", "#endif", ""])


def main() -> None:
    """Write the header."""
    options_of("benchmarks.engine_constants", __doc__).parse_args()
    HEADER.write_text(header(), encoding="utf-8")


if __name__ == "__main__":
    run_main(main)

"""Write ``alphamf/native/_shared.h``: constants that the engine in C shares with the Python code.

``python -m benchmarks.engine_constants`` rewrites it; run it after changing one of these values.
"""

from typing import Any

import numpy as np

from alphamf.audio import stft
from alphamf.denoising import gain, grids, high_bands, spatial, uncertainty
from alphamf.factorization import cells
from alphamf.learnt import bands, causal, high_band, network, refiner, second_stage
from alphamf.tools import arrays
from benchmarks.report import ROOT, run_main

HEADER = ROOT / "alphamf" / "native" / "_shared.h"

single = np.float32
late, high = zip(*network.DEEP, strict=True)


def singles(of: Any, **names: str) -> dict[str, Any]:
    """Return attributes of `of` in single precision, by their names in C."""
    return {name: single(getattr(of, each)) for name, each in names.items()}


def plain(of: Any, **names: str) -> dict[str, Any]:
    """Return attributes of `of` as they are, by their names in C."""
    return {name: getattr(of, each) for name, each in names.items()}


TABLE: list[tuple[Any, dict[str, Any]]] = [
    (arrays, {"LOG_LIMIT": single(arrays.LOG_LIMIT), "LARGEST_PHI": single(np.exp(60.0))}),
    (cells, singles(cells, TINY="TINY", LARGEST="LARGEST", FLOOR="FLOOR")),
    (
        network,
        plain(network, FEATURES="FEATURES", OUTPUTS_OF_CELL="OUTPUTS", ADDED="ADDED", TAPS="TAPS")
        | {"DILATIONS": network.DILATIONS, "MOST_DEEP": len(network.DEEP)}
        | {"LATE_FRAMES": late, "HIGH_BINS": high}
        | singles(network, LOGIT="LOGIT", LEAK="SLOPE", NORM_EPSILON="NORM_EPSILON")
        | singles(network, NARROWEST="NARROWEST", SILENT="SILENT"),
    ),
    (causal, {"EDGE_LOW": causal.EDGE[0], "EDGE_HIGH": causal.EDGE[1]}),
    (causal, plain(causal, ALIGNMENT="ALIGNMENT", PANEL="PANEL", BIAS="BIAS")),
    (
        second_stage,
        singles(second_stage, SILENT_PAIR="SILENT", MOST_SPEECH="MOST", CHANGE="CHANGE")
        | {"START_OF_SOUND": single(second_stage.START[0])}
        | {"START_OF_SPEECH": single(second_stage.START[1])},
    ),
    (
        refiner,
        {"AROUND": refiner.AROUND, "IN_PAUSES": single(refiner.IN_PAUSES)}
        | {"IN_PAUSES_ABOVE": single(high_band.IN_PAUSES)}
        | singles(refiner, SPEECH_DB="SPEECH_DB", PAUSE_DB="PAUSE_DB", TINY_POWER="TINY"),
    ),
    (bands, plain(bands, BANDS="COUNT", BELOW="BELOW", FIRST_HZ="FIRST_HZ", LAST_HZ="LAST_HZ")),
    (high_bands, {"CROSSED_FROM": high_bands.CROSSED[0], "CROSSED_TO": high_bands.CROSSED[1]}),
    (grids, {"BAND_LOW": grids.BAND_TOP[0], "BAND_HIGH": grids.BAND_TOP[1]}),
    (stft, plain(stft, FRAME_HOPS="FRAME_HOPS", SYNTHESIS_HOPS="SYNTHESIS_HOPS")),
    (
        uncertainty,
        {
            "SPEECH_LOW": uncertainty.BAND[0],
            "SPEECH_HIGH": uncertainty.BAND[1],
            "SPAN": uncertainty.SPAN,
        }
        | {"RATIO_MOST": uncertainty.RATIO[1], "LEVEL_LEAST": uncertainty.LEVEL[0]}
        | {"WEIGHTS": uncertainty.WEIGHTS},
    ),
    (spatial, {"SHARED": single(spatial.SHARED)}),
    (
        uncertainty,
        singles(uncertainty.CHOSEN, DEVIATION_SCALE="scale", DEVIATION_POWER="power")
        | {"DEVIATION_LEAST": single(uncertainty.CHOSEN.least), "FAINT": uncertainty.CHOSEN.faint}
        | {"FAINT_STD": single(uncertainty.CHOSEN.faint_std), "BEND": uncertainty.CHOSEN.bend},
    ),
    (gain, singles(gain, FAINT_MOST_DB="MOST_DB") | {"STEEPNESS": gain.STEEPNESS}),
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
    """Return the text of the C header."""
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
    """Write the C header."""
    HEADER.write_text(header(), encoding="utf-8")


if __name__ == "__main__":
    run_main(main)

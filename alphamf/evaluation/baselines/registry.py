"""All baselines by name.

Importing them costs no more than NumPy; what a method needs is imported when it runs.
"""

from __future__ import annotations

from alphamf.evaluation.baselines import logmmse, nmf, oracle
from alphamf.evaluation.baselines.base import Method
from alphamf.evaluation.baselines.peers import PEERS

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("noisy", "the unprocessed input", oracle.return_input),
        Method("oracle-mask", "Wiener mask of the true speech and noise: a bound", oracle.mask),
        Method("logmmse", "log-spectral amplitude estimator with noise tracking", logmmse.denoise),
        Method(
            "is-nmf",
            "Itakura-Saito NMF, speech from the dictionary",
            nmf.is_nmf,
            uses_model=True,
        ),
        Method(
            "kl-nmf",
            "Kullback-Leibler NMF, speech from the dictionary",
            nmf.kl_nmf,
            uses_model=True,
        ),
        *PEERS,
    )
}
"""Every method by name."""

"""The joint model of two channels: its likelihood, and that its moves of Phi are exact."""

from __future__ import annotations

import numpy as np

from alphamf.factorization.cells import FLOOR, Cells, Want
from benchmarks.joint import LOADING, SharedPhi, components


def complexes(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def covariance(spectra):
    matrix = np.einsum("abf,cbf->bac", spectra, spectra.conj()) / spectra.shape[-1]
    load = LOADING * np.trace(matrix, axis1=1, axis2=2).real / 2 + FLOOR
    return matrix + load[:, None, None] * np.eye(2)


def test_the_components_have_the_likelihood_of_the_channels():
    rng = np.random.default_rng(0)
    speech, noise = (complexes(rng, 2, 2) @ complexes(rng, 2, 7 * 9) for _ in range(2))
    speech, noise = (each.reshape(2, 7, 9) for each in (speech, noise))
    basis, of_speech, of_noise = components(speech, noise)
    assert (of_speech[0] / of_noise[0] >= of_speech[1] / of_noise[1]).all()
    x, a, b = complexes(rng, 7, 2), 0.7, 2.3
    dense = a * covariance(speech) + b * covariance(noise)
    quadratic = np.einsum("bc,bc->b", x.conj(), np.linalg.solve(dense, x[..., None])[..., 0]).real
    exact = np.linalg.slogdet(dense)[1] + quadratic
    y = np.linalg.solve(basis, x[..., None])[..., 0].T
    variance = a * of_speech + b * of_noise
    found = (np.log(variance) + np.abs(y) ** 2 / variance).sum(axis=0)
    found += 2 * np.linalg.slogdet(basis)[1]
    np.testing.assert_allclose(found, exact, rtol=1e-10)


def test_moves_of_phi_leave_the_law_of_phi_and_data_unchanged():
    rng = np.random.default_rng(1)
    loops, alpha = SharedPhi(1), 1.0
    phi = loops.stable(rng, alpha, np.empty((800, 250)))
    v = np.repeat([1.0, 0.3], 400)[:, None] * np.ones_like(phi)
    power = (FLOOR + phi * v**2 + 1.0) * rng.standard_exponential(phi.shape)
    before = phi[:400].copy()
    sources = [Cells(alpha, v, phi), Cells(2.0, np.full_like(v, 0.5), None)]
    accepted, _ = loops.evaluate(Want.MOVE, power, sources, states=[rng, None])
    np.testing.assert_array_equal(phi[:400], phi[400:])
    assert 0.1 < accepted / phi.size < 0.9
    for data in (1.0, np.exp(-power[:400]), np.exp(-power[400:])):
        for t in (0.05, 0.5, 2.0):
            change = (np.exp(-t * phi[:400]) - np.exp(-t * before)) * data
            assert abs(change.mean()) < 4 * change.std() / change.size**0.5

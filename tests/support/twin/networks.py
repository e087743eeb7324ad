"""The causal networks frame by frame: ``_network.c`` of the engine explains them."""

import numpy as np

from alphamf.learnt import bands, causal, high_band, layers, network, refiner, second_stage
from alphamf.learnt.causal import CausalHighBand, fill_band_end


def rounded(parameters):
    """Return the parameters of a network with its matrices in 8 bits, as the engine has them."""
    return {
        name: np.multiply(*causal.in_bytes(value)) if name.endswith(causal.MATRICES) else value
        for name, value in parameters.items()
    }


class Ring:
    """The newest input frames of a layer, at first zero."""

    def __init__(self, frames, shape):
        self._frames, self._newest = np.zeros((frames, *shape), np.float32), -1

    def taps(self, x, taps, distance):
        """Add a frame, and return the frame that each tap reads; the last one reads the newest."""
        self._newest = (self._newest + 1) % len(self._frames)
        self._frames[self._newest] = x
        return [self._frames[self._newest - k * distance] for k in reversed(range(taps))]


class FrameNetwork:
    """A causal network with its memory, for several channels."""

    change = second_stage.CHANGE

    def __init__(self, trained, channels):
        self._wide = isinstance(trained, CausalHighBand)
        self.trained, self._p = trained, rounded(trained.parameters)
        bins, sizes = trained.cells(trained.frame), trained.sizes
        self._blocks = [
            (block, Ring((network.TAPS - 1) * block.distance + 1, (channels, sizes.width)))
            for block in network.stack(sizes)
        ]
        self._cells = [
            (each, Ring(2 * each.apart[0] + 1, (channels, bins, each.inputs)))
            for each in network.correlations(sizes)
        ]
        self._shares = Ring(refiner.AROUND + 1, (channels,))

    def outputs(self, features):
        """Return `layers.outputs` of the newest frame, shape (channels, bins, features)."""
        p = self._p
        x = features.reshape(len(features), -1) @ p["in.weight"] + p["in.bias"]
        for block, ring in self._blocks:
            u = x - x.mean(-1, keepdims=True)
            u = u / np.sqrt((u * u).mean(-1, keepdims=True) + network.NORM_EPSILON)
            u = u * p[f"{block.name}.scale"] + p[f"{block.name}.shift"]
            near = ring.taps(u, network.TAPS, block.distance)
            u = sum(a * b for a, b in zip(near, p[f"{block.name}.taps"], strict=True))
            u = layers.leaky_rectify(u @ p[f"{block.name}.up"] + p[f"{block.name}.up_bias"], np)
            x = x + (u @ p[f"{block.name}.down"] + p[f"{block.name}.down_bias"])
        maps = layers.feature_maps(p, x, features.shape[1])
        y = np.concatenate([features, maps], -1)
        for each, ring in self._cells:
            near = np.concatenate(ring.taps(y, 3, each.apart[0]), -1)
            weight, high = p[f"{each.name}.weight"], each.apart[1]
            below, here, above = weight.swapaxes(0, 1).reshape(3, near.shape[-1], -1)
            z = near @ here + p[f"{each.name}.bias"]
            z[:, high:] += near[:, :-high] @ below
            z[:, :-high] += near[:, high:] @ above
            z = layers.leaky_rectify(z, np) if each.rectify else z
            y = y + z if each.residual else z
        y[..., : network.ADDED] += maps[..., : network.ADDED]
        return y

    def refine(self, power, *, gain, gain_std, speech, noise):
        """Predict the gain of the newest frame; all arrays have the shape (channels, cells)."""
        each = (np.log(values + np.float32(network.SILENT)) for values in (power, speech, noise))
        logs = [values[..., None] for values in each]
        pair = gain[..., None], gain_std[..., None]
        features = network.features(logs[0], *pair, logs[1], logs[2], np)[:, 0]
        if not self._wide:
            features = fill_band_end(features, np)
        logit = network.logits(self.outputs(features)[:, None], features[:, None])[:, 0]
        found = layers.logistic(logit, np)
        used = slice(bands.BELOW if self._wide else 0, None)
        share = refiner.speech_share(found.T[used], power.T[used])
        largest = np.max(self._shares.taps(share, refiner.AROUND + 1, 1), axis=0)
        in_pauses = high_band.IN_PAUSES if self._wide else refiner.IN_PAUSES
        exponents = refiner.exponents(largest, self.trained.exponent, np, in_pauses)
        return found ** exponents.astype(np.float32)[:, None]

    def coefficients(self, noisy, first):
        """Return the coefficients of sound and speech, given their spectra (channels, bins)."""
        read = second_stage.features(noisy[..., None], first[..., None], 0.0, np)
        made = self.outputs(read[:, 0, :, : network.FEATURES])
        found = second_stage.coefficients(made[:, None], np)
        sound, speech = found.sound[..., 0], found.speech[..., 0]
        return self.change * sound, self.change * speech + (1 - self.change)

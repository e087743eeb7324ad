"""Rooms for training mixtures: how a voice, its early part and a noise are heard in them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats, Reals
from alphamf.tools.extras import install_packages
from alphamf.training.refiner.shaping import Rng, convolved, log_uniform, pick, rms

EARLY_SECONDS = 0.05
"""How long after the direct sound a reflection belongs to the voice: it makes speech clearer."""

RT60, DISTANCE = (0.1, 1.2), (0.3, 5.0)
"""Ranges of the reverberation time in seconds, and of the distance of the voice in metres."""

SMALLEST, LARGEST = (2.5, 2.0, 2.2), (10.0, 8.0, 4.5)
"""Ranges of the room's sides in metres."""

REFLECTIONS = 40
"""The most reflections at walls that a path has; all others are 50 dB below the direct sound."""

MOVED = 0.05
"""How far each image is moved at random, in metres: walls that are not perfectly straight give no
sweeping echoes (De Sena et al., IEEE/ACM TASLP 23, 2015)."""

WALL = 0.3
"""Least distance of voice, noise and microphone from walls and from each other, in metres."""

RECORDED, NOISE_OUTSIDE = 0.15, 0.3
"""Shares of recorded rooms, and of noises that are heard without the room."""


class Room(NamedTuple):
    """Responses of a room, from the direct sound of the voice on."""

    # voice, early: response of the voice's place, and its first `EARLY_SECONDS`; shape (n,).
    voice: Reals
    early: Reals
    noise: Reals  # Response of another place, or of another recorded room; shape (m,)

    def heard(self, voice: Reals) -> Reals:
        """Return a voice's early part and the whole voice in the room, shape (2, samples)."""
        return np.stack([convolved(voice, each)[: len(voice)] for each in (self.early, self.voice)])

    def heard_noise(self, noise: Reals) -> Reals:
        """Return a noise in the room, shape (samples,), with the same level."""
        made = convolved(noise, self.noise)[: len(noise)]
        return made * (rms(noise) / rms(made))


def draw_room(rng: Rng, rate: int, recorded: Sequence[Floats]) -> Room:
    """Draw a room of the image method, or a recorded one."""
    if len(recorded) and rng.random() < RECORDED:
        voice, noise = (np.array(pick(rng, recorded), float) for _ in range(2))
        return _from_direct(voice, noise, int(np.abs(voice).argmax()), rate)
    return image_room(rng, rate)


def image_room(
    rng: Rng,
    rate: int,
    rt60: tuple[float, float] = RT60,
    distance: tuple[float, float] = DISTANCE,
) -> Room:
    """Draw a box-shaped room with the image method.

    Allen and Berkley, JASA 65 (1979); Scheibler, Bezzam and Dokmanic, ICASSP 2018 (the package).
    """
    rooms = image_method()
    while True:
        size = rng.uniform(SMALLEST, LARGEST)
        seconds, away = rng.uniform(*rt60), log_uniform(rng, *distance)
        microphone, voice, noise = rng.uniform(WALL, size - WALL, (3, 3))
        direction = voice - microphone
        voice = microphone + direction * away / np.linalg.norm(direction)
        inside = (voice > WALL / 2).all() and (voice < size - WALL / 2).all()
        if not inside or np.linalg.norm(noise - microphone) < WALL:
            continue
        try:
            absorbed, order = rooms.inverse_sabine(seconds, size)
        except ValueError:  # walls cannot absorb that much
            continue
        room = rooms.ShoeBox(
            size,
            fs=rate,
            materials=rooms.Material(absorbed),
            max_order=min(order, REFLECTIONS),
            air_absorption=True,
        )
        for source in (voice, noise):
            room.add_source(list(source))
        room.add_microphone(list(microphone))
        room.image_source_model()
        _move_images(rng, room)
        room.compute_rir()
        responses = [np.asarray(each, float) for each in room.rir[0]]
        arrival = int(away / rooms.constants.get("c") * rate)
        near = slice(arrival, arrival + rate // 100)  # the filter of a fractional delay
        direct = arrival + int(np.abs(responses[0][near]).argmax())
        return _from_direct(responses[0], responses[1], direct, rate)


def _move_images(rng: Rng, room: Any) -> None:
    """Move the images of all sources at random, but not the sources."""
    for source in room.sources:
        moved = rng.uniform(-MOVED, MOVED, source.images.shape)
        moved[:, source.orders == 0] = 0
        source.images += moved.astype(source.images.dtype)


def image_method() -> Any:
    """Return the package of the image method."""
    try:
        import pyroomacoustics
    except ImportError as error:
        raise AlphaMFError(
            "rooms of the image method need pyroomacoustics; install it with "
            f"{install_packages('pyroomacoustics')}"
        ) from error
    return pyroomacoustics


def _from_direct(voice: Reals, noise: Reals, direct: int, rate: int) -> Room:
    """Cut what is before the direct sound, and scale that to one."""
    before = rate // 1000  # the rise of the direct sound
    start = max(direct - before, 0)
    voice = voice[start:] / np.abs(voice[direct])
    early = voice.copy()
    early[direct - start + round(EARLY_SECONDS * rate) :] = 0
    return Room(voice, early, noise)

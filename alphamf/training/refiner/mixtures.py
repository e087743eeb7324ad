"""Mixtures of speech and noise for training networks, made from the recipe of a configuration.

Functions that take a pair process speech and mixture alike, except for clipping and rounding, so
that the speech is a denoiser's ideal output, which keeps the sound of rooms and telephones.
"""

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from alphamf.audio.resample import resample
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats, Reals
from alphamf.tools.extras import install_packages
from alphamf.training.refiner.config import Mixtures
from alphamf.training.refiner.noises import noise
from alphamf.training.refiner.recordings import SplitRecordings
from alphamf.training.refiner.shaping import (
    TELEPHONE_RATE,
    Rng,
    add_pauses,
    begin_late,
    change_speed,
    convolved,
    cut_loud_piece,
    decibels_to_amplitude,
    filter_telephone,
    log_uniform,
    pick,
    rms,
    room,
    shape_spectrum,
    spoken,
)

EARLY_SECONDS = 0.05
"""Seconds after the direct sound in which reflections count as voice, as they make it clearer."""

RT60, DISTANCE = (0.1, 1.2), (0.3, 5.0)
"""Ranges of the reverberation time in seconds, and from voice to microphone in metres."""

SMALLEST, LARGEST = (2.5, 2.0, 2.2), (10.0, 8.0, 4.5)
"""Smallest and largest length, width and height of a room in metres."""

REFLECTIONS = 40
"""Maximum number of wall reflections of a sound path; paths with more reflections are left out."""

MOVED = 0.05
"""Largest random shift of each image source along an axis, in metres: without shifts, perfect walls
would give sweeping echoes (De Sena et al., IEEE/ACM TASLP 23, 2015)."""

WALL = 0.3
"""Minimum distance from walls in metres, halved for the voice, and from noise to microphone."""

RECORDED, NOISE_OUTSIDE = 0.15, 0.3
"""Fractions of rooms that are recorded, and of noises that are outside of the voice's room."""


class Room(NamedTuple):
    """Impulse responses of a room."""

    # voice, early: response from the voice's place, and its part up to `EARLY_SECONDS`; shape (n,).
    voice: Reals
    early: Reals
    noise: Reals  # Response from another place, or of any recorded room; shape (m,)

    def heard(self, voice: Reals) -> Reals:
        """Return a voice with early reflections only, and with all, shape (2, samples)."""
        return np.stack([convolved(voice, each)[: len(voice)] for each in (self.early, self.voice)])

    def heard_noise(self, noise: Reals) -> Reals:
        """Return a noise in the room, shape (samples,), with the same level."""
        made = convolved(noise, self.noise)[: len(noise)]
        return made * (rms(noise) / rms(made))


def draw_room(rng: Rng, rate: int, recorded: Sequence[Floats]) -> Room:
    """Draw a room by the image method, or from `recorded`, if any, with probability `RECORDED`."""
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
    """Draw a box-shaped room by the image method; `rt60`, `distance`: ranges as `RT60`, `DISTANCE`.

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
    """Return the package of the image method; raise an AlphaMFError if it is not installed."""
    try:
        import pyroomacoustics
    except ImportError as error:
        raise AlphaMFError(
            "rooms of the image method need pyroomacoustics; install it with "
            f"{install_packages('pyroomacoustics')}"
        ) from error
    return pyroomacoustics


def _from_direct(voice: Reals, noise: Reals, direct: int, rate: int) -> Room:
    """Return a room; its voice response starts up to 1 ms before `direct`, and is ±1 there."""
    before = rate // 1000  # the rise of the direct sound
    start = max(direct - before, 0)
    voice = voice[start:] / np.abs(voice[direct])
    early = voice.copy()
    early[direct - start + round(EARLY_SECONDS * rate) :] = 0
    return Room(voice, early, noise)


MOST_CLIPPED = 9.0
"""Largest overshoot of a mixture's peak over the level at which it is clipped, in dB."""

CODED_PEAK = 0.5
"""Amplitude of a mixture's peak while it is encoded, because codecs are made for usual levels."""

LONGEST_TAIL = 1.5
"""Maximum length of a response in `recorded_room`, in seconds; the rest is cut off."""


class LossyCodec(NamedTuple):
    """An audio codec of libsndfile."""

    # container, subtype: libsndfile's names of the file format and of the codec.
    container: str
    subtype: str
    # Range of the compression level, within 0 to 1; None if the codec has no such setting.
    compression: tuple[float, float] | None = None
    narrow: bool = False  # Whether sound is resampled to 8 kHz, as the codec is for telephones


CODECS = (
    (0.25, LossyCodec("MP3", "MPEG_LAYER_III", (0.0, 0.9))),
    (0.35, LossyCodec("OGG", "OPUS", (0.75, 0.98))),
    (0.15, LossyCodec("OGG", "VORBIS", (0.2, 1.0))),
    (0.10, LossyCodec("WAV", "GSM610", narrow=True)),
    (0.10, LossyCodec("WAV", "ULAW", narrow=True)),
    (0.05, LossyCodec("WAV", "IMA_ADPCM")),
)
"""Pairs of the relative frequency with which a codec is drawn, and the codec."""


def recorded_room(rng: Rng, sound: Reals, rate: int, response: Reals) -> Reals:
    """Convolve a sound with a room response whose tail gets up to 12 dB softer; keep the level.

    `sound`, `rate`: shape (..., samples), and its sampling rate in Hz. `response`: response of the
    room, shape (n,), at that rate; its peak is the direct sound.
    """
    response = np.array(response[: int(LONGEST_TAIL * rate)], float)
    direct = int(np.abs(response).argmax())
    near = direct + rate // 400  # 2.5 ms
    response[near:] *= decibels_to_amplitude(-rng.uniform(0, 12))
    made = convolved(sound, response)[..., direct : direct + sound.shape[-1]]
    return made * (rms(spoken(sound)) / rms(spoken(made)))


def band(rng: Rng, pair: tuple[Reals, Reals], rate: int) -> tuple[Reals, Reals]:
    """Limit the band of both sounds as a microphone does, at random low and high frequencies."""
    samples = len(pair[0])
    frequencies = np.fft.rfftfreq(samples, 1 / rate)
    low, high = log_uniform(rng, 20, 250), log_uniform(rng, 0.2 * rate, 0.6 * rate)
    below = 1 + (low / np.maximum(frequencies, 1)) ** rng.uniform(2, 8)
    above = 1 + (frequencies / high) ** rng.uniform(4, 30)
    gain = np.sqrt(1 / below / above)
    clean, noisy = (np.fft.irfft(np.fft.rfft(each) * gain, samples) for each in pair)
    return clean, noisy


def apply_codec(rng: Rng, pair: tuple[Reals, Reals], rate: int) -> tuple[Reals, Reals]:
    """Encode and decode both sounds with a random codec, at the same gain and compression level."""
    chances = np.array([chance for chance, _ in CODECS])
    codec = CODECS[rng.choice(len(CODECS), p=chances / chances.sum())][1]
    compression = None if codec.compression is None else rng.uniform(*codec.compression)
    scale = CODED_PEAK / max(np.abs(pair[1]).max(), 1e-9)
    clean, noisy = (
        encode_and_decode(each * scale, rate, codec, compression).astype(float) / scale
        for each in pair
    )
    return clean, noisy


def encode_and_decode(
    sound: Reals, rate: int, codec: LossyCodec, compression: float | None
) -> Floats:
    """Encode and decode a sound; rate and length are kept, and libsndfile removes the delay.

    `sound`, `rate`: shape (samples,), below full scale, and its sampling rate in Hz.
    """
    import soundfile

    used = TELEPHONE_RATE if codec.narrow else rate
    given = resample(sound.astype(np.float32), rate, used) if used != rate else sound
    file = io.BytesIO()
    with soundfile.SoundFile(
        file,
        "w",
        samplerate=used,
        channels=1,
        format=codec.container,
        subtype=codec.subtype,
        compression_level=compression,
    ) as writer:
        writer.write(given)
    file.seek(0)
    heard, _ = soundfile.read(file, dtype="float32")
    if used != rate:
        heard = resample(heard, used, rate)
    result: Floats = np.zeros(len(sound), np.float32)
    result[: len(heard)] = heard[: len(sound)]
    return result


def quantize_mixture(
    rng: Rng, pair: tuple[Reals, Reals], level: tuple[float, ...], clipped: bool
) -> tuple[Floats, Floats]:
    """Scale a pair to a random peak, and round the mixture to 16 bits; if `clipped`, clip it first.

    `pair`: speech and mixture, shape (samples,). `level`: range of the mixture's peak in dBFS.
    Returns `clean, noisy`: float32; the speech is scaled, too, but not clipped and not rounded.
    """
    clean, noisy = (each / np.abs(pair[1]).max() for each in pair)
    if clipped:
        over = decibels_to_amplitude(rng.uniform(0, MOST_CLIPPED))
        clean, noisy = clean * over, np.clip(noisy * over, -1, 1)
    scale = decibels_to_amplitude(rng.uniform(level[0], level[1]))
    rounded = np.round(noisy * scale * 32767) / 32767
    return (clean * scale).astype(np.float32), rounded.astype(np.float32)


SPEEDS = tuple(range(80, 125, 2))
"""Playing speeds of a voice in per cent, which scale its pitch as well."""

NEARLY_CLEAN = (20.0, 50.0)
"""Range of the signal-to-noise ratio of speech that is nearly clean, in dB."""

SIBILANT, PIECES = 4000.0, 4
"""Frequency in Hz above which sibilants have most of their energy, and the number of pieces of a
voice from which the one with most sibilants is chosen, if sibilants are requested."""

FILTERED, FLOOR, FAR_END = 0.5, 0.3, 0.85
"""Fractions of voices that are filtered, of mixtures with a faint noise floor, and of telephone
mixtures whose noise is filtered by the telephone, too."""


def mixture(
    rng: Rng, samples: int, rate: int, recordings: SplitRecordings, recipe: Mixtures
) -> tuple[Floats, Floats]:
    """Draw a mixture: speech plus noise, sometimes with a room, telephone, microphone or codec.

    `samples`, `rate`: length of the mixture, and sampling rate in Hz. Returns `clean, noisy`: shape
    (samples,), float32; the target speech, too, has passed the room (with `echo`, its early part),
    the telephone, the microphone and the codec, but is not clipped.
    """
    voice = _voice(rng, samples, rate, recordings, recipe)
    rest = noise(rng, samples, rate, recordings.voices, recordings.sounds, recipe)
    if rng.random() < recipe.pauses:
        rest = add_pauses(rng, rest, rate)
    if recipe.echo and rng.random() < recipe.echo:
        heard = draw_room(rng, rate, recordings.rooms)
        voice = heard.heard(voice)
        if rng.random() > NOISE_OUTSIDE:
            rest = heard.heard_noise(rest)
    if rng.random() < recipe.telephone:
        line = rng.integers(1 << 30)
        voice = filter_telephone(np.random.default_rng(line), voice, rate)
        if rng.random() < FAR_END:
            rest = filter_telephone(np.random.default_rng(line), rest, rate)
    target, speech = voice if voice.ndim == 2 else (voice, voice)
    snr = NEARLY_CLEAN if rng.random() < recipe.nearly_clean else recipe.snr
    rest = rest * (rms(speech) / rms(rest) * decibels_to_amplitude(-rng.uniform(snr[0], snr[1])))
    if rng.random() < FLOOR:
        rest = rest + rng.standard_normal(samples) * rms(speech) * decibels_to_amplitude(
            -rng.uniform(25, 50)
        )
    pair: tuple[Reals, Reals] = target, speech + rest
    if rng.random() < recipe.band:
        pair = band(rng, pair, rate)
    if rng.random() < recipe.codec:
        pair = apply_codec(rng, pair, rate)
    return quantize_mixture(rng, pair, recipe.level, bool(rng.random() < recipe.clipped))


def _voice(
    rng: Rng, samples: int, rate: int, recordings: SplitRecordings, recipe: Mixtures
) -> Reals:
    """Draw a voice at a random speed, sometimes with a late start, a filter or reverberation.

    Where the recordings have targets, the result has two rows: the target and the voice.
    """
    which = int(rng.integers(len(recordings.voices)))
    voice = recordings.voices[which]
    if recordings.targets:
        voice = np.stack([recordings.targets[which], voice])
    voice = change_speed(rng, voice, SPEEDS)
    speech = cut_loud_piece(rng, voice, samples, 0.4).astype(float)
    # No number is drawn for a probability of 0, so that older recipes give the same mixtures.
    if recipe.sibilant and rng.random() < recipe.sibilant:
        others = [cut_loud_piece(rng, voice, samples, 0.4).astype(float) for _ in range(PIECES - 1)]
        speech = max([speech, *others], key=lambda piece: _sibilance(piece, rate))
    if recipe.late and rng.random() < recipe.late:
        speech = begin_late(rng, speech, rate)
    if rng.random() < FILTERED:
        speech = shape_spectrum(rng, speech, rate, 3.0, (-0.6, 0.6))
    where = rng.random()
    if where < recipe.rooms:
        return recorded_room(rng, speech, rate, pick(rng, recordings.rooms))
    if where < recipe.rooms + recipe.made_up_rooms:
        return room(rng, speech, rate)
    return speech


def _sibilance(speech: Reals, rate: int) -> float:
    """Return the fraction of a voice's energy above `SIBILANT`, or above `rate` / 4 if lower."""
    speech = spoken(speech)
    energy = np.abs(np.fft.rfft(speech)) ** 2
    above = np.fft.rfftfreq(len(speech), 1 / rate) > min(SIBILANT, rate / 4)
    return float(energy[above].sum() / energy.sum())

"""Above the dictionary's band: which bands have sound, their rows, and where their gains go."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from alphamf import Stream
from alphamf.audio.resample import resample
from alphamf.audio.stft import Frame, forward, sqrt_hann
from alphamf.denoising import high_bands
from alphamf.denoising.api import denoise
from alphamf.denoising.grids import Spectra, native_grid
from alphamf.denoising.settings import PRESETS, Settings
from alphamf.denoising.weights import find
from alphamf.learnt.bands import ABOVE, edges
from alphamf.learnt.dictionary import choose
from alphamf.scores.score import si_sdr

DATA = Path(__file__).parents[2] / "data"
MODEL = choose("auto", 48000)
QUICK = Settings(sampler="em", warm_up=0, steps=4, keep=2, refine=True)


def noise(seconds=1.0, rate=48000, seed=0):
    return np.random.default_rng(seed).standard_normal(int(seconds * rate)).astype(np.float32)


def below(sound, edge, rate=48000):
    """Return a sound without what lies above a frequency in Hz."""
    spectrum = np.fft.rfft(sound)
    spectrum[np.fft.rfftfreq(len(sound), 1 / rate) > edge] = 0
    return np.fft.irfft(spectrum, len(sound)).astype(np.float32)


@pytest.mark.parametrize("rate", [32000, 44100, 48000, 88200, 192000])
def test_all_bands_below_half_of_the_rate_are_heard(rate):
    wanted = int((edges()[-ABOVE:] < 0.49 * rate).sum())
    assert high_bands.count_modelled_bands(Spectra(noise(0.5, rate), rate), MODEL) == wanted
    assert high_bands.count_possible_bands(rate, MODEL) == wanted


@pytest.mark.parametrize("edge", [9000, 12000, 16000])
def test_bands_are_heard_up_to_the_sounds_edge(edge):
    found = high_bands.count_modelled_bands(Spectra(below(noise(), edge), 48000), MODEL)
    reached = int(np.searchsorted(edges()[-ABOVE - 1 :], edge))
    assert found in (reached, reached + 1)
    # Upsampled, as files with such an edge are made, with the noise of 16 bits.
    narrow = np.round(0.3 * resample(noise(1, 16000), 16000, 48000) * 32767) / 32767
    assert high_bands.count_modelled_bands(Spectra(narrow.astype(np.float32), 48000), MODEL) <= 2


def test_nothing_above_is_heard_at_the_dictionarys_rate_or_without_its_rows():
    assert high_bands.count_modelled_bands(Spectra(noise(1, 16000), 16000), MODEL) == 0
    assert high_bands.count_modelled_bands(Spectra(noise(), 48000), replace(MODEL, above=None)) == 0
    assert (
        high_bands.count_possible_bands(16000, MODEL)
        == high_bands.count_possible_bands(48000, choose("auto", 8000))
        == 0
    )


def test_speech_in_a_file_of_a_higher_rate_comes_out_as_at_its_own():
    """As calls are recorded. With bands from 7 kHz on, 12 dB more was left below 7.6 kHz."""
    speech, _ = soundfile.read(DATA / "sample-clean.wav", dtype="float32", frames=4 * 16000)
    narrow = speech + 10**-0.25 * speech.std() * noise(4, 16000)
    wide = resample(narrow, 16000, 48000)
    own = denoise(resample(wide, 48000, 16000), 16000).audio
    found = resample(denoise(wide, 48000).audio, 48000, 16000)
    before, after = (
        below(sound, 7600, 16000) - below(sound, 7000, 16000) for sound in (own, found)
    )
    assert abs(10 * np.log10((after**2).sum() / (before**2).sum())) < 2


@pytest.mark.parametrize("rate", [16000, 44100, 48000, 192000])
def test_a_call_is_narrow_in_a_file_of_any_rate(rate):
    call = np.random.default_rng(2).standard_normal(8000).astype(np.float32) * np.float32(0.1)
    wide = resample(call, 8000, rate)
    assert high_bands.is_narrow([wide], rate)
    assert high_bands.is_narrow([np.round(wide * 32767) / 32767, 0 * wide], rate)
    assert not high_bands.is_narrow([wide, noise(1, rate)], rate)
    assert not high_bands.is_narrow([below(noise(1, rate), 5000, rate)], rate)
    assert not high_bands.is_narrow([0 * wide], rate)


@pytest.mark.parametrize(("rate", "preset"), [(16000, "fast"), (44100, "fast"), (16000, "plain")])
def test_a_call_in_a_file_of_a_higher_rate_is_denoised_as_a_call(rate, preset):
    """The networks for 16 kHz know few calls, and lost 1.2 dB."""
    speech, _ = soundfile.read(DATA / "sample-clean.wav", dtype="float32", frames=3 * 16000)
    clean = resample(speech, 16000, 8000)
    call = clean + clean.std() * noise(3, 8000)
    own, wide = denoise(call, 8000, preset).audio, resample(call, 8000, rate)
    # Not if the dictionary was chosen.
    found, chosen = (
        resample(denoise(wide, rate, preset, model=model).audio, rate, 8000)
        for model in ("auto", "speech-16k")
    )
    assert ((found - own) ** 2).sum() < 0.2 * ((chosen - own) ** 2).sum()


@pytest.mark.parametrize("latency", ["segments", "low"])
@pytest.mark.parametrize("rate", [8200, 8900, 9600, 11025, 12000, 14000, 16000])
def test_speech_gains_as_much_at_every_rate_above_8_khz(rate, latency):
    """Networks for 8 kHz took its sibilants away: 1.8 dB of SI-SDR were lost at 14 kHz."""
    speech, _ = soundfile.read(DATA / "sample-clean.wav", dtype="float32", frames=4 * 16000)
    noisy = resample(speech + 0.1 * speech.std() * noise(4, 16000, seed=1), 16000, rate)
    with Stream(rate, 1, latency=latency) as stream:
        parts = [stream.process(noisy), stream.flush()]
    clean, found = resample(speech, 16000, rate), np.concatenate(parts)
    assert si_sdr(clean, found) > si_sdr(clean, noisy) + 1.2


@pytest.mark.parametrize("rate", [8900, 9600, 11025])
def test_a_narrow_band_is_told_from_a_low_rate(rate):
    whole = resample(noise(2, 16000), 16000, rate)
    assert not high_bands.is_narrow([whole], rate)
    call = resample(0.1 * noise(2, 8000), 8000, rate)
    assert high_bands.is_narrow([call], rate) == (rate > high_bands.NARROW_RATE)


def test_both_channels_and_each_segment_decide_what_is_narrow():
    call = resample(noise(20, 8000), 8000, 16000)
    whole = denoise(call, 16000, QUICK).audio
    both = denoise(np.stack([call, noise(20, 16000)], axis=1), 16000, QUICK).audio
    assert np.abs(both[:, 0] - whole).max() > 0.01
    later = np.concatenate([call, noise(20, 16000)])
    found = denoise(later, 16000, QUICK).audio
    np.testing.assert_array_equal(found[: 9 * 16000], whole[: 9 * 16000])


def test_the_network_of_the_bands_changes_nothing_below():
    weights, given = find(48000), noise(2)
    ours, without = (
        denoise(given, 48000, QUICK, model=each).audio
        for each in (weights, replace(weights, high_band=None))
    )
    change = np.abs(np.fft.rfft((ours - without) * np.hanning(len(given)))) ** 2
    assert change[: 2 * 7000].mean() < 1e-4 * change[2 * 9000 : 2 * 20000].mean()


@pytest.mark.parametrize("refine", [False, True])
def test_hiss_above_goes_and_what_is_not_there_does_not_appear(refine):
    """Tones below in hiss that goes up to 24 kHz; the same up to 12 kHz, and nothing above."""
    t = np.arange(96000) / 48000
    tones = sum(np.sin(2 * np.pi * 150 * k * t) / k for k in range(1, 20))
    voice = (tones * (np.sin(2 * np.pi * 2 * t) > 0)).astype(np.float32)
    settings = replace(PRESETS["fast"], refine=refine)
    for top in (24000, 12000):
        noisy = 0.1 * (voice + 0.1 * below(noise(2), top))
        out = denoise(noisy, 48000, settings, seed=0).audio
        before, after = (np.abs(np.fft.rfft(each)) ** 2 for each in (noisy, out))
        frequencies = np.fft.rfftfreq(len(noisy), 1 / 48000)
        hiss = (frequencies > 9000) & (frequencies < top)
        assert after[hiss].sum() < 0.2 * before[hiss].sum()
        if top == 12000:
            nothing = frequencies > 12500  # but for the voice's onsets
            assert after[nothing].sum() < 1.01 * before[nothing].sum()


def test_the_first_speech_of_linked_channels_is_made_as_loud_as_the_gains_say():
    """Where it is there at all; what it lacks beyond that comes from the sound."""
    grid = native_grid(find(48000).second_stage, 48000)
    noisy = Spectra(noise(1), 48000).spectrum_on(grid)
    gains = np.full((ABOVE, noisy.shape[1]), 0.6, np.float32)
    for part, raised in ((0.5, 1.2), (0.1, float(high_bands.MOST_RAISED)), (2.0, 0.3)):
        of_noisy, of_first = high_bands.split_band_gains(gains, noisy, part * noisy, grid)
        np.testing.assert_allclose(of_first, raised, rtol=1e-3)
        np.testing.assert_allclose(of_noisy + part * of_first, 0.6, rtol=1e-3)
    of_noisy, of_first = high_bands.split_band_gains(gains, noisy, 0 * noisy, grid)
    np.testing.assert_allclose(of_noisy, 0.6, rtol=1e-3)


def test_a_voice_in_two_channels_keeps_its_level_and_place_above():
    """One hiss that comes and goes, 12 dB softer on the right, in other noise on each side."""
    rng = np.random.default_rng(0)
    t = np.arange(96000) / 48000
    voice = rng.standard_normal(96000) * (np.sin(2 * np.pi * 2 * t) > 0)
    noisy = np.stack([voice, 0.25 * voice], 1) + 0.1 * rng.standard_normal((96000, 2))
    out = denoise(0.1 * noisy.astype(np.float32), 48000, "fast", seed=0).audio
    spectra = np.fft.rfft(out, axis=0)
    high = slice(2 * 9000, 2 * 19000)
    cross = np.vdot(spectra[high, 0], spectra[high, 1])
    powers = (np.abs(spectra[high]) ** 2).sum(axis=0)
    assert 0.2 < np.sqrt(powers[1] / powers[0]) < 0.35
    before = np.fft.rfft(noisy, axis=0)[high]
    mixed = np.vdot(before[:, 0], before[:, 1])
    coherence = abs(cross) / np.sqrt(powers.prod())
    assert coherence > abs(mixed) / np.sqrt((np.abs(before) ** 2).sum(axis=0).prod()) + 0.02


def test_16_khz_has_no_use_for_the_bands():
    sound = noise(1, 16000)
    weights = find(16000)
    assert weights.high_band is None and find(48000).high_band is not None
    bare = replace(weights, dictionary=replace(weights.dictionary, above=None))
    found, wanted = (denoise(sound, 16000, QUICK, model=each).audio for each in (weights, bare))
    np.testing.assert_array_equal(found, wanted)


# Nothing appears above the edge of a sound whose band ends early ---------------------------------


FAST = replace(PRESETS["fast"], steps=6, keep=4, warm_up=6)


def sound(rate: int, seconds: float = 2.0) -> np.ndarray:
    """Syllables of noise and of tones, over a hiss, up to half the rate."""
    rng = np.random.default_rng(0)
    time = np.arange(round(seconds * rate)) / rate
    syllables = np.sin(2 * np.pi * 2 * time) ** 4
    tones = sum(np.sin(2 * np.pi * 150 * k * time) / k for k in range(1, 40))
    noise = rng.standard_normal((2, len(time)))
    return (0.1 * syllables * (tones + noise[0]) + 0.02 * noise[1]).astype(np.float32)


def edge(sound, rate):
    """Return the frequency in Hz above which there is less than -80 dB of the sound's energy."""
    frame = Frame(4096, 2048)
    window = sqrt_hann(frame.n_fft) ** 4  # whose side lobes are below -100 dB from 100 Hz on
    spectra = forward(sound, frame, window)[:, 2:-2]  # those at the ends hold steps to silence
    energy = (np.abs(spectra).astype(float) ** 2).sum(axis=1)[::-1].cumsum()[::-1]
    return np.flatnonzero(energy > 1e-8 * energy[0])[-1] * rate / frame.n_fft


@pytest.mark.parametrize("before, rate", [(16000, 48000), (22050, 44100), (32000, 48000)])
def test_upsampled_sound(before, rate):
    upsampled = resample(sound(before), before, rate)
    top = edge(upsampled, rate)
    assert abs(top - before / 2) < 0.05 * before
    found = denoise(upsampled, rate, FAST).audio
    assert edge(found, rate) < top + 500


def test_mp3():
    """What the codec's low-pass leaves above its edge does not grow."""
    file = io.BytesIO()
    soundfile.write(file, sound(48000), 48000, format="MP3", compression_level=0.8)
    file.seek(0)
    decoded = soundfile.read(file, dtype="float32")[0]
    top = edge(decoded, 48000)
    assert top < 20000
    found = denoise(decoded, 48000, FAST).audio
    assert edge(found, 48000) < top + 500

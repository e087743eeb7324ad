"""One clip and one method: scores, costs, kept sounds, and methods that misbehave."""

import multiprocessing
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from alphamf.denoising.settings import PRESETS
from alphamf.errors import AlphaMFError
from alphamf.evaluation import measure as module
from alphamf.evaluation import methods
from alphamf.evaluation.baselines.base import Method
from alphamf.evaluation.baselines.registry import METHODS
from alphamf.evaluation.measure import measure, memory_source, scores
from alphamf.evaluation.methods import DEFAULTS, all_methods, describe, resolve
from alphamf.evaluation.pairs import Pair
from alphamf.evaluation.runner import EvaluationJob
from alphamf.evaluation.summary import USUAL, Result
from alphamf.scores.score import pesq, sdr, si_sdr, stoi
from tests.support.places import DATA


def speech(seconds=1.5):
    """Return clean and noisy speech at 8 kHz."""
    both = []
    for name in ("clean", "noisy"):
        sound, rate = soundfile.read(DATA / f"sample-{name}.wav", dtype="float32")
        both.append(sound[: int(seconds * rate) : rate // 8000].copy())
    return both


@pytest.fixture
def job(tmp_path):
    clean, noisy = speech()
    files = {name: str(tmp_path / f"{name}.wav") for name in ("clean", "noisy")}
    soundfile.write(files["clean"], clean, 8000, "FLOAT")
    soundfile.write(files["noisy"], noisy, 8000, "FLOAT")
    pair = Pair(files["noisy"], files["clean"], "car_5dB/a.wav", "a.wav", "car", 5.0)
    result = Result("1", "k", "odd", pair.noisy_name, pair.clean_name, "car", 5.0, 3)
    return EvaluationJob(
        pair, "speech-8k", str(tmp_path / "out"), result, originals=("clean", "noisy")
    )


def install(monkeypatch, run):
    monkeypatch.setitem(METHODS, "odd", Method("odd", "for a test", run))
    monkeypatch.setattr(module, "_warm", set())


def test_a_method_is_given_the_clip_and_its_output_is_scored(job, monkeypatch):
    calls = []

    def run(clip):
        calls.append(clip)
        return (0.5 * (clip.noisy + clip.clean)).astype(np.float32)

    install(monkeypatch, run)
    found = measure(job)
    clean, noisy = speech()
    # Once untimed, on a second of it, and once in earnest.
    assert [len(clip.noisy) for clip in calls] == [8000, len(noisy)]
    np.testing.assert_array_equal(calls[1].noisy, noisy)
    np.testing.assert_array_equal(calls[1].clean, clean)
    assert calls[1][3:] == (3, "speech-8k") and calls[1].rate == 8000
    output = (0.5 * (noisy + clean)).astype(np.float32)
    assert set(found.scores) == set(USUAL)
    expected = {
        "si_sdr": si_sdr(clean, output),
        "si_sdr_gain": si_sdr(clean, output) - si_sdr(clean, noisy),
        "sdr": sdr(clean, output),
        "stoi": stoi(clean, output, 8000),
        "estoi": stoi(clean, output, 8000, extended=True),
    }
    assert {name: found.scores[name] for name in expected} == pytest.approx(expected)
    assert found.scores["sir"] == pytest.approx(found.scores["sdr"], abs=1e-3)
    # Half the noise and nothing else: no artefacts.
    assert found.scores["sar"] is None and found.reasons["sar"].startswith("it is infinite")
    assert found.error is None and (found.rate, found.seconds) == (8000, len(clean) / 8000)
    assert (found.method, found.noise, found.snr, found.seed) == ("odd", "car", 5.0, 3)
    measure(job)
    assert len(calls) == 3

    sounds = {"odd": output, "noisy": noisy, "clean": clean}
    places = {
        "odd": found.audio,
        "noisy": "audio/noisy/car_5dB/a.flac",
        "clean": "audio/clean/a.flac",
    }
    for name, place in places.items():
        kept, rate = soundfile.read(Path(job.output, place))
        assert rate == 8000 and soundfile.info(Path(job.output, place)).subtype == "PCM_16"
        np.testing.assert_allclose(kept, sounds[name], atol=2**-15)


def test_pesq_follows_the_rate(job):
    pytest.importorskip("pesq")
    clean, noisy = speech()
    found, reasons = scores(clean, noisy, noisy, 8000)
    assert found["pesq"] == pytest.approx(pesq(clean, noisy, 8000)) and "pesq" not in reasons
    assert scores(clean, noisy, noisy, 16000)[0]["pesq"] != pytest.approx(found["pesq"], abs=0.01)
    found, reasons = scores(clean, noisy, noisy, 11025)
    assert found["pesq"] is None and "8000 or 16000 Hz, not 11025" in reasons["pesq"]
    assert found["stoi"] is not None


def test_scores_that_cannot_be_had_leave_the_others():
    clean, noisy = speech()
    short, mixed = clean[4000:4800], noisy[4000:4800]
    found, reasons = scores(short, mixed, mixed, 8000)
    assert {name for name, value in found.items() if value is None} == set(reasons)
    assert {"stoi", "estoi", "pesq", "sar"} == set(reasons) and "0.10 s" in reasons["stoi"]
    assert found["si_sdr_gain"] == 0
    # Nothing is left of the sound.
    found, reasons = scores(clean, noisy, np.zeros_like(noisy), 8000)
    assert set(reasons) == set(USUAL) == set(found) and not any(found.values())
    assert "silent" in reasons["si_sdr"]
    # No noise was there to begin with.
    found, reasons = scores(clean, clean, noisy, 8000)
    assert found["si_sdr"] == pytest.approx(si_sdr(clean, noisy))
    assert "infinite" in reasons["si_sdr_gain"] and "silent" in reasons["sir"]
    assert found["sdr"] == pytest.approx(sdr(clean, noisy)) and "sdr" not in reasons


def test_a_broken_noisy_file_leaves_the_clean_sound_for_others(job):
    Path(job.pair.noisy).write_text("no audio")
    assert "is not an audio file" in measure(job).error
    assert Path(job.output, "audio/clean/a.flac").is_file()


def broken(clip):
    raise AlphaMFError("nothing to be done")


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (lambda clip: clip.noisy[:-1], "odd returned a sound of the shape (11999,) for (12000,)"),
        (lambda clip: np.full_like(clip.noisy, np.nan), "odd returned values that are not finite"),
        (broken, "nothing to be done"),
    ],
)
def test_a_method_that_misbehaves_gives_no_result(job, monkeypatch, run, sentence):
    install(monkeypatch, run)
    found = measure(job)
    assert found.error == sentence
    assert (found.scores, found.audio, found.cpu_seconds) == ({}, None, None)
    assert not Path(job.output, "audio/odd").exists()


def test_the_costs_are_those_of_the_method_alone(job, monkeypatch):
    def run(clip):
        until = time.process_time() + 0.1
        while time.process_time() < until:
            pass
        time.sleep(0.2)
        return clip.noisy + np.ones(30_000_000, np.float32)[0]

    install(monkeypatch, run)
    found = measure(job)
    assert found.cpu_seconds >= 0.1
    assert found.real_time_factor * found.seconds >= found.cpu_seconds + 0.15
    if "VmHWM" in memory_source():
        # The next one does not inherit the 120 MB.
        install(monkeypatch, lambda clip: clip.noisy)
        assert found.peak_memory_mb - measure(job).peak_memory_mb > 100


def child(clip):
    """Burn time in another process."""
    process = multiprocessing.get_context("fork").Process(target=sum, args=(range(10_000_000),))
    process.start()
    process.join()
    return clip.noisy


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are forked")
def test_time_in_other_processes_counts(job, monkeypatch):
    install(monkeypatch, child)
    found = measure(job)
    assert found.cpu_seconds > 0.03 and found.peak_memory_mb is None


def test_methods_are_resolved_once_each():
    specs = [entry.spec for entry in resolve(["noisy, fast", "fast", "plain@speech-8k"])]
    assert specs == ["noisy", "fast", "plain@speech-8k"]
    everything = [entry.spec for entry in resolve(["all"])]
    assert set(DEFAULTS) <= set(everything) <= set(all_methods())
    assert {"plain", "paper"} <= set(everything)
    models = {entry.spec: entry.model for entry in resolve(["fast,fast@speech-16k"], "speech-8k")}
    assert models == {"fast": "speech-8k", "fast@speech-16k": "speech-16k"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("noisy,fast,other=out/", {"noisy": None, "fast": None, "other": "out/"}),
        ("other=out/,noisy", {"other": "out/", "noisy": None}),
        ("a=out, old,b=x/,fast@speech-16k", {"a": "out, old", "b": "x/", "fast@speech-16k": None}),
    ],
)
def test_folders_of_other_systems_stand_beside_methods(empty, text, expected):
    for name in ("out", "out, old", "x"):
        (empty / name).mkdir()
        (empty / name / "a.wav").touch()
    found = {entry.spec: entry.folder and entry.folder.path for entry in resolve([text])}
    assert found == expected


@pytest.mark.parametrize(
    ("noisy", "found"),
    [
        ("fan/b.wav", "fan/b_denoised.flac"),
        ("noisy/fan/a.wav", "fan/a.wav"),  # what `denoise noisy --output-dir` makes of a corpus
        ("elsewhere/c.wav", "rain/c.wav"),
        ("elsewhere/a.wav", "holds more than one file"),
        ("d.wav", "holds no file"),
    ],
)
def test_a_file_of_another_system_has_the_last_folders_of_the_noisy_one(tmp_path, noisy, found):
    for name in ("fan/a.wav", "rain/a.wav", "fan/b_denoised.flac", "rain/b.wav", "rain/c.wav"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    file, reason = methods.Folder(str(tmp_path)).file(noisy)
    assert file.endswith(found) if reason is None else found in reason


def test_methods_that_can_not_run_are_refused(monkeypatch):
    absent = Method("odd", "for a test", broken, "package odd", lambda: "odd is not installed")
    monkeypatch.setitem(METHODS, "odd", absent)
    assert "odd" not in [entry.spec for entry in resolve(["all"])]
    for spec, sentence in {
        "nothing": "unknown method 'nothing'; it must be one of noisy, ",
        "noisy,": "unknown method ''; it must be one of noisy, ",
        "odd": "`method` odd cannot run: odd is not installed",
        "fast@": "`method` fast@ has no dictionary after the @",
        "fast@gone.npz": "unknown model 'gone.npz'",
    }.items():
        with pytest.raises(AlphaMFError) as error:
            resolve([spec])
        assert str(error.value).startswith(sentence)


def test_what_a_method_is_told_by_changes_with_its_settings_and_dictionary(tmp_path):
    from alphamf.learnt.dictionary import load

    own = tmp_path / "own.npz"
    load("speech-8k").save(own)
    (first,) = resolve(["fast"], str(own))
    assert first.identity == resolve(["fast"], str(own))[0].identity
    assert first.identity != resolve(["plain"], str(own))[0].identity
    load("speech-16k").save(own)
    assert first.identity != resolve(["fast"], str(own))[0].identity
    assert describe(first)["settings"]["warm_up"] == PRESETS["fast"].warm_up
    assert set(describe(resolve(["noisy"])[0])) == {"summary", "model"}


@pytest.mark.parametrize("change", ["", "IN_PAUSES = 2.0\n"])
def test_stored_scores_are_of_the_code_as_it_is(change, tmp_path, monkeypatch):
    before = [entry.identity for entry in resolve(["fast", "low", "noisy"])]
    other = shutil.ignore_patterns("*.npz", "__pycache__")
    home = shutil.copytree(methods.HOME, tmp_path / "alphamf", ignore=other)
    with (home / "learnt" / "pauses.py").open("a") as file:
        file.write(change)
    monkeypatch.setattr(methods, "HOME", home)
    after = [entry.identity for entry in resolve(["fast", "low", "noisy"])]
    assert [each == old for each, old in zip(after, before, strict=True)] == [
        not change,
        not change,
        True,
    ]

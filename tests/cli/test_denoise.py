"""``alphamf denoise`` as a user meets it: files, messages, exit codes."""

import json
import os
import re
import threading
from pathlib import Path

import numpy as np
import pytest
import soundfile

import alphamf
from alphamf.audio.reader import read
from alphamf.cli import batch
from alphamf.scores.score import si_sdr
from tests.support.commands import run
from tests.support.places import DATA

QUICK = ("--steps", "20")


def denoise(*arguments: object, **options):
    return run("denoise", *arguments, *QUICK, **options)


def sound(path: Path, seconds: float = 0.4, rate: int = 8000, channels: int = 1, **options) -> Path:
    """Write a gliding tone in noise."""
    t = np.arange(int(seconds * rate))[:, None] / rate
    rng = np.random.default_rng(7)
    x = 0.3 * np.sin(2 * np.pi * (300 * t + 300 * t**2)) * (1 + np.arange(channels)) / channels
    soundfile.write(path, x + 0.03 * rng.standard_normal(x.shape), rate, **options)
    return path


def properties(path: Path) -> tuple[object, ...]:
    found = soundfile.info(path)
    return found.samplerate, found.channels, found.frames, found.format, found.subtype


@pytest.mark.slow
def test_every_odd_file_is_refused_or_written_like_its_input(shared, tmp_path):
    folder = shared / "corpora/odd"
    result = denoise(folder, "--output-dir", tmp_path, "--jobs", 1, "--json", code=2)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    errors = {Path(line["file"]).name: line["error"] for line in lines if "error" in line}
    assert errors.keys() == {
        *("empty.wav", "nan_inf.wav", "text.wav", "truncated_header.wav", "zero_bytes.wav")
    }
    assert [Path(line["file"]).name for line in lines if line.get("cut")] == ["truncated.wav"]
    assert all(name in sentence for name, sentence in errors.items())
    assert result.stderr.splitlines()[:-1] == [f"Error: {each}" for each in errors.values()]
    inputs = {path.name for path in folder.iterdir() if path.suffix not in (".md", ".csv")}
    assert set(os.listdir(tmp_path)) == inputs - set(errors)
    for name in os.listdir(tmp_path):
        assert properties(tmp_path / name) == properties(folder / name)
        assert np.isfinite(soundfile.read(tmp_path / name)[0]).all()


def test_a_file_is_denoised_beside_it_in_its_format_and_reported_on_one_line(empty):
    sound(Path("-two\nlines.flac"), rate=44100, channels=2, subtype="PCM_24")
    line = run("denoise", *QUICK, "--", "-two\nlines.flac").stdout
    assert line.startswith(r"-two\nlines.flac -> -two\nlines.denoised.flac: 0.40 s in ")
    assert re.search(r" \(real-time factor \d+\.\d\d\)\n$", line) and line.count("\n") == 1
    assert set(os.listdir()) == {"-two\nlines.flac", "-two\nlines.denoised.flac"}
    assert properties(Path("-two\nlines.denoised.flac")) == properties(Path("-two\nlines.flac"))
    assert denoise("./-two\nlines.flac", "--quiet", "--overwrite").output == ""


def test_json_has_all_that_the_sentence_says_and_the_settings(empty):
    noisy, _ = soundfile.read(sound(Path("a.wav"), channels=2))
    words = ("a.wav", "--json", "--chains", 2, "--strength", 0.25, "--reference", "a.wav")
    got = json.loads(denoise(*words, "--seed", 3).stdout)
    for name, seed in (("same", 3), ("other", 4)):
        denoise(*words, "-o", f"{name}.wav", "--seed", seed)
        same = Path(f"{name}.wav").read_bytes() == Path("a.denoised.wav").read_bytes()
        assert same == (name == "same")
    assert (got["file"], got["output"]) == ("a.wav", "a.denoised.wav")
    assert (got["rate"], got["channels"], got["samples"], got["seed"]) == (8000, 2, 3200, 3)
    assert got["seconds"] > 0 and got["real_time_factor"] > 0
    assert len(got["acceptance"]) == 2 and got["agreement"]["chains"] == 2
    assert got["settings"].items() >= {"steps": 20, "chains": 2, "dry": 0.75}.items()
    assert got["scores"]["after"]["stoi"] is None  # of a short clip
    denoise("a.wav", "--strength", 0, "--overwrite")
    np.testing.assert_array_equal(soundfile.read("a.denoised.wav")[0], noisy)


def test_chains_say_how_far_they_agree_and_are_warned_of(empty):
    audio, rate = soundfile.read(DATA / "sample-noisy.wav", frames=48000)
    soundfile.write("speech.wav", audio, rate)
    _, line = run("denoise", "speech.wav", "--preset", "fast", "--chains", 2).stdout.splitlines()
    assert re.fullmatch(r"  2 chains agree to 0\.[1-4] dB", line)
    sound(Path("tone.wav"))  # which is nothing like speech
    _, line = run("denoise", "tone.wav", "--chains", 3, "--steps", 1).stdout.splitlines()
    assert re.match(r"  Warning: 3 chains differ by [1-9]\.\d dB; use more --steps or more", line)


def test_what_is_passed_over_is_said(empty):
    Path("in").mkdir()
    Path("in/b").write_bytes(b"fLaC")
    sound(Path("in/a.wav"))
    skipped = "Note: skipped 1 with an unknown extension or none; to read one, name it\n"
    assert denoise("in").stderr == skipped
    result = "in/a.denoised.wav"
    assert denoise(result, "in/a.wav", "--overwrite").stderr == (
        "Note: skipped 1 denoised file of another input (to denoise it again, name it explicitly)\n"
    )
    assert denoise("in", "--quiet").stderr == denoise(result, "in", "--quiet").stderr == ""


def test_a_bad_file_does_not_stop_the_others(empty):
    sound(Path("a.wav"))
    soundfile.write("b.wav", np.zeros((8, 65)), 8000)
    sound(Path("c.wav"))
    result = denoise("a.wav", "b.wav", "gone.wav", "c.wav", "--jobs", 1, code=2)
    *errors, last = result.stderr.splitlines()
    assert errors == [
        "Error: b.wav has 65 channels, more than 64; raise --max-channels to allow more",
        "Error: gone.wav does not exist",
    ]
    assert re.fullmatch(r"2 of 4 files denoised in \d+\.\d s", last)
    words = ("a.wav", "b.wav", "c.wav", "--overwrite", "--quiet", "--max-channels", 65)
    assert denoise(*words).stderr == "" and Path("b.denoised.wav").exists()


def test_a_stream_in_and_out(empty):
    data = sound(Path("a.wav")).read_bytes()
    denoise("a.wav")
    result = denoise("-", stdin=data)
    assert result.stdout_bytes == Path("a.denoised.wav").read_bytes()
    assert result.stderr.startswith("- -> -: 0.40 s")
    assert denoise("-", stdin=b"", code=2).stderr == "Error: standard input is empty (0 bytes)\n"
    broken = denoise("-", stdin=data[:1000], code=2)
    assert len(broken.stdout_bytes) == 1000 and "standard input is truncated" in broken.stderr
    denoise("-", "-o", "b.flac", stdin=data)
    assert properties(Path("b.flac")) == (8000, 1, 3200, "FLAC", "PCM_16")


def test_what_is_beyond_full_scale_is_clipped_and_counted(empty):
    soundfile.write("a.wav", 3 * np.sin(np.arange(3000) / 5), 8000, subtype="FLOAT")
    result = denoise("a.wav", "-o", "b.flac", "--strength", 0)
    clipped = int((np.abs(soundfile.read("a.wav")[0]) > 1).sum())
    assert f"{clipped} samples above full scale were clipped, by up to 9.5 dB" in result.stdout
    assert "WAV FLOAT is written as FLAC PCM_24" in result.stdout


def test_a_cut_file_is_denoised_up_to_there_with_a_note_and_exit_code_2(empty):
    data = sound(Path("a.au"), seconds=1).read_bytes()
    Path("a.au").write_bytes(data[:8024])
    result = json.loads(denoise("a.au", "--json", code=2).stdout)
    assert result["note"].endswith("it has only 8000; using the first 0.50 s")
    assert result["cut"] == result["note"]
    assert soundfile.info("a.denoised.au").frames == 4000
    whole = json.loads(denoise(sound(Path("b.wav")), "--json").stdout)
    assert (whole["note"], whole["cut"]) == (None, None)


def test_more_results(empty):
    noisy, _ = soundfile.read(sound(Path("a.wav"), channels=2, subtype="FLOAT"), dtype="float32")
    denoise("a.wav", "--noise-output", "n/n.wav", "--uncertainty", "u/u.npz", "--plot", "p/p.png")
    total = soundfile.read("a.denoised.wav")[0] + soundfile.read("n/n.wav")[0]
    np.testing.assert_allclose(total, noisy, atol=2**-15)
    with np.load("u/u.npz") as arrays:
        channels, bins, frames = arrays["gain"].shape
        assert channels == 2 and arrays["gain_std"].shape == arrays["gain"].shape
        assert arrays["frame_times"].shape == (frames,)
        assert arrays["frequencies"].shape == (bins,) and arrays["frequencies"][-1] == 4000
        assert 0 <= arrays["gain"].min() and arrays["gain"].max() <= 1
    assert Path("p/p.png").read_bytes().startswith(b"\x89PNG")
    line = run("denoise", "a.wav", "--dereverb", "50%", "--json", "--overwrite").stdout
    assert "dereverberator-8k" in line
    found, _ = soundfile.read("a.denoised.wav", dtype="float32")
    np.testing.assert_allclose(found, alphamf.denoise(noisy, 8000, dereverb=0.5).audio, atol=1e-6)


def test_scores_against_a_reference(empty):
    for name in ("clean", "noisy"):
        samples, rate = soundfile.read(DATA / f"sample-{name}.wav", dtype="int16", stop=32000)
        soundfile.write(f"{name}.wav", samples, rate)
    words = ("noisy.wav", "--overwrite", "--reference")
    scores = json.loads(denoise(*words, "clean.wav", "--json").stdout)["scores"]
    clean, noisy = read("clean.wav")[0][:, 0], read("noisy.wav")[0][:, 0]
    assert scores["before"]["si_sdr"] == pytest.approx(si_sdr(clean, noisy))
    result = denoise(*words, "clean.wav")
    assert "SI-SDR" in result.stdout and re.search(r"STOI   \d.\d{3} -> \d.\d{3}\n", result.stdout)
    sound(Path("other.wav"))
    refused = denoise(*words, "other.wav", code=2)
    assert "--reference other.wav must match noisy.wav" in refused.stderr


def test_an_unexpected_failure_has_code_1_and_leaves_nothing(empty, monkeypatch):
    from alphamf.batch import file

    for name in "ab":
        sound(Path(f"{name}.wav"))

    def broken(reader, *arguments, real=file._denoise):
        found = real(reader, *arguments)
        if reader.name == "a.wav":
            raise RuntimeError("no luck")
        return found

    monkeypatch.setattr(file, "_denoise", broken)
    monkeypatch.setattr(batch, "_stays_here", lambda *_: True)
    result = denoise("a.wav", "b.wav", "--jobs", 1, code=1)
    assert "Error: a.wav: RuntimeError: no luck\n" in result.stderr
    assert "Traceback" in result.stderr
    assert sorted(os.listdir()) == ["a.wav", "b.denoised.wav", "b.wav"]


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_what_only_reading_shows_to_be_the_output_is_not_replaced(empty):
    os.mkfifo("p.au")
    Path("p.denoised.wav").write_bytes(b"precious")
    data = sound(Path("p"), format="IRCAM", subtype="PCM_16").read_bytes()
    writer = threading.Thread(target=Path("p.au").write_bytes, args=[data])
    writer.start()
    result = denoise("p.au", "--overwrite", "--jobs", 1, code=2)
    writer.join()
    assert "p.denoised.wav, the output for p.au, already exists" in result.stderr
    assert Path("p.denoised.wav").read_bytes() == b"precious"

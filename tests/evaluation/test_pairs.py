"""Which noisy file belongs to which clean one, in the layouts of known corpora."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphamf.errors import AlphaMFError
from alphamf.evaluation import methods, runner
from alphamf.evaluation.pairs import Pair, condition, core, find_pairs, read_pairs, sample, speeches


def make(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def found(pairs):
    return {pair.noisy_name: (pair.clean_name, pair.noise, pair.snr) for pair in pairs}


LAYOUTS = {
    "NOIZEUS, the clean files among the noisy ones": (
        "c/clean c", "c/clean/sp01.flac c/clean/sp02.flac c/x.txt",
        {"c/car_10dB/sp02.flac": ("sp02.flac", "car", 10.0),
         "c/car_5dB/sp01.flac": ("sp01.flac", "car", 5.0),
         "c/train_-5dB/sp01.flac": ("sp01.flac", "train", -5.0)},
    ),
    "NOIZEUS as it is distributed": (
        "clean 5dB", "clean/sp01.wav clean/sp10.wav",
        {"5dB/sp01_car_sn5.wav": ("sp01.wav", "car", 5.0),
         "5dB/sp10_car_sn5.wav": ("sp10.wav", "car", 5.0)},
    ),
    "VoiceBank": (
        "clean_testset_wav noisy_testset_wav",
        "clean_testset_wav/p232_001.wav clean_testset_wav/p232_002.wav",
        {"noisy_testset_wav/p232_001.wav": ("p232_001.wav", None, None),
         "noisy_testset_wav/p232_002.wav": ("p232_002.wav", None, None)},
    ),
    "deep folders": (
        "speech mixed", "speech/84/121/84-121-0000.flac speech/84/121/84-121-0001.flac",
        {"mixed/babble_0dB/84/121/84-121-0000.flac": ("84/121/84-121-0000.flac", "babble", 0.0),
         "mixed/84/121/84-121-0001_snr2.5.wav": ("84/121/84-121-0001.flac", None, 2.5)},
    ),
    "the words clean and noisy": (
        "*clean*.wav *noisy*.wav book*.wav", "a-clean.wav clean_fileid_7.wav",
        {"a-noisy.wav": ("a-clean.wav", None, None),
         "noisy3_SNRdb_-5.0_a.wav": ("a-clean.wav", None, -5.0),
         "book_1_snr15_tl-21_fileid_7.wav": ("clean_fileid_7.wav", None, 15.0)},
    ),
    "a beginning before a longer end": (
        "clean noisy", "clean/p1.wav clean/speaker22.wav",
        {"noisy/p1_and_speaker22.wav": ("p1.wav", None, None)},
    ),
    "several noisy folders": (
        "clean n/car_0dB n/car_5dB", "clean/a.wav",
        {"n/car_0dB/a.wav": ("a.wav", "car", 0.0), "n/car_5dB/a.wav": ("a.wav", "car", 5.0)},
    ),
    "results of an earlier run": (
        "c/clean c", "c/clean/a.wav c/evaluation/audio/fast/noisy/a.flac",
        {"c/noisy/a.wav": ("a.wav", None, None)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_find_each_other(empty, layout):
    given, others, expected = LAYOUTS[layout]
    make(empty, *others.split(), *expected)
    clean, *noisy = given.split()
    pairs = find_pairs(clean, noisy, output="c/evaluation")
    assert {pair.noisy: (pair.clean_name, pair.noise, pair.snr) for pair in pairs} == expected
    for pair in pairs:
        assert Path(pair.clean).is_file() and not pair.problem
        assert pair.noisy.endswith(pair.noisy_name)
    assert len({pair.noisy_name for pair in pairs}) == len(pairs)


def test_the_same_stem_in_several_folders(empty):
    make(empty, "clean/anna/1.wav", "clean/bert/1.wav", "noisy/car_5dB/bert/1.wav", "noisy/1.wav")
    pairs = find_pairs("clean", ["noisy"])
    assert found(pairs)["car_5dB/bert/1.wav"] == ("bert/1.wav", "car", 5.0)
    (lost,) = (pair for pair in pairs if pair.problem)
    assert lost.problem == "several clean files match 1.wav: anna/1.wav and bert/1.wav"
    assert (lost.noisy_name, lost.clean, lost.clean_name) == ("1.wav", "", "")


def test_a_number_at_the_end_is_no_partner(empty):
    make(empty, "clean/5.wav", "clean/3.wav", "noisy/3_car_5.wav", "noisy/4_car_5.wav")
    problems = {pair.noisy_name: pair.problem for pair in find_pairs("clean", ["noisy"])}
    assert problems == {"3_car_5.wav": None, "4_car_5.wav": "no clean file matches 4_car_5.wav"}


def test_two_files_with_one_output(empty):
    make(empty, "clean/a.wav", "noisy/a.flac", "noisy/a.wav")
    first, second = find_pairs("clean", ["noisy"])
    assert first.problem is None
    assert second.problem == "a.wav would have the same output as a.flac"


@pytest.mark.parametrize(
    ("clean", "noisy", "sentence"),
    [
        ("gone", ["noisy"], "`clean` gone does not exist"),
        ("clean", ["gone"], "`noisy` gone does not exist"),
        ("empty", ["noisy"], "empty contains no audio files"),
        ("clean", ["x*.wav"], "x*.wav matches no audio files"),
        ("clean", ["clean"], "`clean` clean contains only noisy audio files"),
        ("deep/clean", ["deep"], "`noisy` deep contains only clean audio files"),
    ],
)
def test_a_corpus_without_files(empty, clean, noisy, sentence):
    make(empty, "clean/a.wav", "noisy/a.wav", "deep/clean/a.wav", "empty/a.txt")
    with pytest.raises(AlphaMFError) as error:
        find_pairs(clean, noisy)
    assert str(error.value) == sentence


def test_a_table_of_pairs(empty):
    make(empty, "c/x.wav", "c/y.wav", "n/1.wav", "n/y_car_5dB.wav")
    table = empty / "pairs.csv"
    table.write_text("noisy,clean,noise,snr\nn/1.wav,c/x.wav,fan,-2.5\nn/y_car_5dB.wav,c/y.wav,,\n")
    assert found(read_pairs(str(table))) == {
        "n/1.wav": ("c/x.wav", "fan", -2.5),
        "n/y_car_5dB.wav": ("c/y.wav", "car", 5.0),
    }
    table.write_text("\ufeffclean,noisy\r\nx.wav,1.wav\r\nx.wav,1.wav\r\ny.wav,1.wav\r\n", "utf-8")
    pairs = read_pairs("pairs.csv", "c", "n")
    assert [(p.noisy, p.clean, p.noisy_name) for p in pairs] == [
        ("n/1.wav", "c/x.wav", "1.wav"),
        ("n/1.wav", "c/y.wav", "1.wav"),
    ]
    assert [p.problem for p in pairs] == [None, "1.wav would have the same output as 1.wav"]


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes")
def test_a_table_of_names_that_are_not_utf_8(empty):
    (empty / "t.csv").write_bytes(b"clean,noisy\nb\xf6.wav,n.wav\n")
    (pair,) = read_pairs("t.csv")
    assert os.fsencode(pair.clean) == b"b\xf6.wav"


def test_a_table_beside_the_corpus(empty):
    make(empty, "far/c/x.wav", "far/n/car_5dB/x.wav", "far/n/fan_0dB/x.wav")
    (empty / "tables").mkdir()
    lines = [f"../far/c/x.wav,../far/n/{kind}/x.wav" for kind in ("car_5dB", "fan_0dB")]
    (empty / "tables/pairs.csv").write_text("\n".join(["clean,noisy", *lines]))
    assert found(read_pairs("tables/pairs.csv")) == {
        "car_5dB/x.wav": ("x.wav", "car", 5.0),
        "fan_0dB/x.wav": ("x.wav", "fan", 0.0),
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"clean,noisy\n", "t.csv contains no pairs"),
        (b"clean,loud\na,b\n", "row 1 of t.csv has no noisy file"),
        (b"clean,noisy\na,b\n,b\n", "row 2 of t.csv has no clean file"),
        (b"clean,noisy,snr\na,b,nan\n", "the snr in row 1 of t.csv is not a number: 'nan'"),
        (
            b"clean,noisy,snr\na,b," + b"9" * 100000,
            f"the snr in row 1 of t.csv is not a number: '{40 * '9'}...'",
        ),
        (
            b"clean,noisy\na,b\0\n",
            r"the noisy file in row 1 of t.csv has an impossible name: b\x00...",
        ),
        (
            b"clean,noisy\n" + b"a" * 100000 + b",b\n",
            f"the clean file in row 1 of t.csv has an impossible name: {40 * 'a'}...",
        ),
        (
            b"clean,noisy,snr\na,b," + b"9" * 200000,
            "t.csv cannot be read: field larger than field limit (131072)",
        ),
        (b"\xff\xfe\x00", "t.csv contains no pairs"),
    ],
)
def test_a_table_that_does_not_do(empty, text, sentence):
    Path("t.csv").write_bytes(text)
    with pytest.raises(AlphaMFError) as error:
        read_pairs("t.csv")
    assert str(error.value).startswith(sentence) and "\n" not in str(error.value)
    with pytest.raises(AlphaMFError, match=r"gone\.csv cannot be read"):
        read_pairs("gone.csv")


def test_a_sample_is_spread_and_the_same_every_time(empty):
    make(empty, "clean/a.wav", *(f"noisy/n{k:03}_5dB/a.wav" for k in range(100)))
    pairs = find_pairs("clean", ["noisy"])
    few = sample(pairs, 10)
    assert few == sample(pairs, 10) == sorted(few) and len(set(few)) == 10
    assert pairs.index(few[0]) < 30 and pairs.index(few[-1]) >= 70
    assert sample(pairs, None) == sample(pairs, 1000) == pairs


@pytest.mark.parametrize(
    ("noisy", "clean", "told"),
    [
        ("sp01_sn5_car.wav", "sp01.wav", ("car", 5.0)),
        ("car-5dB/x.wav", "x.wav", ("car", 5.0)),
        ("fan_-2.5 dB/x.wav", "x.wav", ("fan", -2.5)),
        ("free-sound-01_5dB/spk/x.wav", "spk/x.wav", ("free-sound-01", 5.0)),
        ("x_exhibition hall_SNR-5dB.wav", "x.wav", ("exhibition hall", -5.0)),
        ("sp01_car_sn5.wav", "", (None, 5.0)),
        ("p232_001.wav", "p232_001.wav", (None, None)),
        ("16kHz/db5/x.wav", "x.wav", (None, None)),
    ],
)
def test_what_names_tell(noisy, clean, told):
    assert condition(noisy, clean) == told


words = st.text("abcdexyz", min_size=1, max_size=6)


@given(
    stem=st.lists(st.one_of(words, st.integers(0, 9999).map(str)), min_size=1, max_size=3),
    joint=st.sampled_from("_-"),
    noise=words,
    level=st.integers(-20, 40),
    upper=st.booleans(),
)
def test_speech_noise_and_level_are_found_again(stem, joint, noise, level, upper):
    clean = joint.join(stem)
    noisy = f"{clean.upper() if upper else clean}_{noise}_snr{level}.wav"
    assert core(f"{clean}.wav") in list(speeches(noisy))
    assert condition(noisy, f"{clean}.wav") == (noise, float(level))
    assert condition(f"{noise}_{level}dB/{clean}.wav", f"{clean}.wav") == (noise, float(level))


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_pipes_and_devices_are_refused_and_never_opened(empty):
    os.mkfifo("p.wav")
    make(empty, "a.wav", "b.wav")
    for table in ("p.wav", "/dev/zero"):
        with pytest.raises(
            AlphaMFError, match=f"`pairs` needs a file, but {table} is a pipe or a device"
        ):
            read_pairs(table)
    Path("t.csv").write_text("clean,noisy\na.wav,b.wav\np.wav,b.wav\na.wav,/dev/zero\n")
    good, *bad = read_pairs("t.csv")
    assert good.problem is None
    assert [pair.problem for pair in bad] == [
        f"{name} is a pipe or a device, not a file" for name in ("p.wav", "/dev/zero")
    ]
    assert {pair.noisy + pair.clean for pair in bad} == {""}


def test_a_clip_that_cannot_be_read_is_an_error_and_no_other_job(tmp_path):
    """Without its content the result would be kept under the key of another clip."""
    (tmp_path / "a.wav").write_bytes(b"any")
    pair = Pair(str(tmp_path / "a.wav"), str(tmp_path / "gone.wav"), "a.wav", "gone.wav")
    (job,) = runner.plan([pair], methods.resolve(["noisy"]), str(tmp_path), seed=0)
    assert job.result.error == f"{tmp_path / 'gone.wav'} cannot be read: No such file or directory"


def test_no_two_jobs_write_the_same_sound(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"any")
    path = str(tmp_path / "a.wav")
    pairs = [Pair(path, path, f"a_car_sn{k}.wav", "a.wav") for k in range(3)]
    todo = runner.plan(pairs, methods.resolve(["logmmse", "noisy"]), str(tmp_path), seed=0)
    given: list[runner.EvaluationJob] = []
    with runner.lock_results(tmp_path):
        list(runner.run(todo, tmp_path, lambda jobs: given.extend(jobs) or []))
    names = [runner.audio_name(job.result.method, job.result.noisy) for job in given]
    names += ["audio/clean/a.flac" for job in given if "clean" in job.originals]
    names += [runner.audio_name("noisy", j.result.noisy) for j in given if "noisy" in j.originals]
    assert len(names) == len(set(names)) == 7

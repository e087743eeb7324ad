"""``alphamf serve``: the API as a client meets it."""

import http.client
import io
import json
import re
import subprocess
import sys
import zipfile

import numpy as np
import psutil
import pytest
import soundfile

pytest.importorskip("starlette", reason="the extra web is not installed")
pytest.importorskip("uvicorn", reason="the extra web is not installed")

from benchmarks.page_server import running
from tests.support.commands import until
from tests.support.places import ROOT

RATE = 8000


def noisy(path, seconds=2.0, rate=RATE, channels=2, **options):
    rng = np.random.default_rng(3)
    t = np.arange(round(seconds * rate)) / rate
    voice = 0.2 * np.sin(2 * np.pi * 160 * t * (1 + 0.02 * np.sin(9 * t))) * (np.sin(5 * t) > 0)
    sound = voice[:, None] + 0.02 * rng.standard_normal((len(t), channels))
    soundfile.write(path, sound, rate, **options)
    return path


def room(path, seconds=4.0):
    """Write bursts of a voice in a room whose echo lasts .8 seconds."""
    rng = np.random.default_rng(4)
    t = np.arange(round(seconds * RATE)) / RATE
    phase = 2 * np.pi * 140 * t * (1 + 0.03 * np.sin(3 * t))
    voice = sum(np.sin(k * phase) / k for k in range(1, 12)) * (np.sin(2 * np.pi * 1.5 * t) > 0)
    tail = np.arange(RATE) / RATE
    answer = 0.3 * rng.standard_normal(RATE) * 10 ** (-3 * tail / 0.8)
    answer[0] = 3
    sound = np.convolve(voice, answer)[: len(t)]
    soundfile.write(path, 0.3 * sound / np.abs(sound).max(), RATE)
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("serve") / "tmp", "--jobs", "1", "--max-size", "2") as it:
        yield it
    assert list(it.folder.iterdir()) == []
    assert "Traceback" not in (it.folder.parent / "tmp.log").read_text()


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    return noisy(tmp_path_factory.mktemp("sound") / "talk.wav")


@pytest.fixture(scope="module")
def done(server, talk):
    """Denoise a recording."""
    key = server.send(talk, seed=5)
    return server.wait(key)


def cli(path, output, *options):
    command = [sys.executable, "-c", "from alphamf.cli.start import main; main()", "denoise"]
    subprocess.run([*command, str(path), "-o", str(output), "-q", *options], check=True, cwd=ROOT)
    return output.read_bytes()


def test_the_download_is_what_the_command_line_writes(server, done, talk, tmp_path):
    assert done["state"] == "done" and done["output"] == "talk.denoised.wav"
    status, headers, data = server.ask("GET", f"api/recordings/{done['id']}/result")
    assert status == 200 and 'filename="talk.denoised.wav"' in headers["content-disposition"]
    assert data == cli(talk, tmp_path / "a.wav", "--preset", "fast", "--seed", "5")


@pytest.fixture(scope="module")
def echoless(server, tmp_path_factory):
    """Have a recording of a room, its echo removed, too: its file and its state."""
    path = room(tmp_path_factory.mktemp("room") / "room.wav")
    key = server.wait(server.send(path, seed=5))["id"]
    status, _, data = server.ask("GET", f"api/recordings/{key}/result?echo=1")
    assert status == 409 and "not removed yet" in json.loads(data)["error"]
    assert server.ask("GET", f"api/recordings/{key}/sound?echo=1")[0] == 409
    begun = server.json("POST", f"api/recordings/{key}/echo")
    assert begun["echo"]["done"] is False and begun["state"] == "done"
    assert server.ask("POST", f"api/recordings/{key}/echo")[0] == 409
    until(lambda: server.json("GET", f"api/recordings/{key}")["echo"]["done"], 120)
    return path, server.json("GET", f"api/recordings/{key}")


@pytest.mark.parametrize(("dry", "strength"), [("0", "1"), ("0.25", "0.75")])
def test_a_download_without_echo_is_what_the_command_line_writes(
    server, echoless, tmp_path, dry, strength
):
    path, state = echoless
    address = f"api/recordings/{state['id']}/result?dry={dry}"
    data = server.ask("GET", f"{address}&echo=1")[2]
    options = ("--seed", "5", "--dereverb", "1", "--strength", strength)
    assert data == cli(path, tmp_path / "a.wav", *options)
    assert data != server.ask("GET", address)[2]


def test_a_part_of_the_echo_lies_between_with_and_without(server, echoless):
    _, state = echoless
    address, frames = f"api/recordings/{state['id']}", state["about"]["frames"]
    _, headers, data = server.ask("GET", f"{address}/sound?frames={frames}&echo=1")
    sound, speech, free = np.frombuffer(data, "<f4").reshape(3, frames)
    assert headers["x-speech"] == "whole"
    assert np.sum((speech - free) ** 2) > 1e-3 * np.sum(speech**2)
    _, _, wav = server.ask("GET", f"{address}/result?dry=0.5&echo=0.3")
    mixed, _ = soundfile.read(io.BytesIO(wav), dtype="float32")
    assert np.abs(mixed - (0.5 * sound + 0.5 * (0.7 * speech + 0.3 * free))).max() <= 2**-15
    _, _, data = server.ask("GET", f"api/archive?id={state['id']}&dry=0.5&echo=0.3")
    assert zipfile.ZipFile(io.BytesIO(data)).read("room.denoised.wav") == wav


def test_the_state_of_an_echo_is_as_described(server, echoless):
    schema = server.json("GET", "api/openapi.json")["components"]["schemas"]["Recording"]
    assert echoless[1]["echo"] == {"done": True, "progress": 1.0, "error": None}
    assert set(echoless[1]["echo"]) == set(schema["properties"]["echo"]["properties"])
    stopped = server.json("DELETE", f"api/recordings/{echoless[1]['id']}/echo")
    assert stopped["echo"] == echoless[1]["echo"]  # what is done stays


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["wav", "ogg", "mp3", "m4a"])
def test_a_part_of_the_noise_is_left_as_by_strength(server, tmp_path, ending):
    """The bytes of some encoders depend on how many samples they are given at a time."""
    path = tmp_path / f"talk.{ending}"
    cli(noisy(tmp_path / "in.wav", 17, RATE, 1), path, "--strength", "0")
    key = server.wait(server.send(path))["id"]
    for dry in ("0.25", "0.2", "0"):
        _, _, data = server.ask("GET", f"api/recordings/{key}/result?dry={dry}")
        output = tmp_path / f"{dry}.{ending}"
        assert data == cli(path, output, "--preset", "fast", "--strength", str(1 - float(dry))), dry


def test_another_format_holds_the_same_samples(server, done, talk):
    _, headers, data = server.ask("GET", f"api/recordings/{done['id']}/result?format=flac")
    _, _, wav = server.ask("GET", f"api/recordings/{done['id']}/result")
    assert "talk.denoised.flac" in headers["content-disposition"]
    flac, rate = soundfile.read(io.BytesIO(data), dtype="int16")
    assert rate == RATE and np.array_equal(flac, soundfile.read(io.BytesIO(wav), dtype="int16")[0])


def test_pictures_come_from_a_column_on(server, done):
    address = f"api/recordings/{done['id']}/picture?of="
    whole = {of: server.ask("GET", address + of)[2] for of in ("input", "speech", "band")}
    assert len(whole["input"]) == len(whole["speech"]) and len(whole["input"]) % 98 == 0
    assert whole["input"] != whole["speech"] and whole["band"]
    assert server.ask("GET", f"{address}speech&first=3")[2] == whole["speech"][3 * 98 :]
    low, middle, high = np.frombuffer(whole["band"], np.uint8).reshape(-1, 3).T.astype(int)
    assert (low <= middle).all() and (middle <= high).all() and (low < high).any()


def test_each_recording_of_a_zip_has_a_format_and_a_loudness_of_its_own(server, done):
    query = "&".join(
        f"id={done['id']}&dry={dry}&format={kind}&loudness={loudness}"
        for dry, kind, loudness in ((0, "input", "input"), (0, "mp3", -16), (0.5, "flac", -20))
    )
    status, _, data = server.ask("GET", f"api/archive?{query}")
    archive = zipfile.ZipFile(io.BytesIO(data))
    assert status == 200
    assert archive.namelist() == ["talk.denoised.wav", "talk.denoised.mp3", "talk.denoised.flac"]
    for name, dry, kind, loudness in (
        ("talk.denoised.mp3", 0, "mp3", -16),
        ("talk.denoised.flac", 0.5, "flac", -20),
    ):
        address = f"api/recordings/{done['id']}/result"
        one = server.ask("GET", f"{address}?dry={dry}&format={kind}&loudness={loudness}")[2]
        assert archive.read(name) == one


def test_a_download_has_the_loudness_of_the_command_line(server, done, talk, tmp_path):
    _, _, data = server.ask("GET", f"api/recordings/{done['id']}/result?loudness=-20")
    options = ("--preset", "fast", "--seed", "5", "--normalize", "-20LUFS")
    assert data == cli(talk, tmp_path / "loud.wav", *options)
    status, _, refused = server.ask("GET", f"api/archive?id={done['id']}&dry=0&dry=0&dry=0")
    assert status == 400 and "once for each recording" in json.loads(refused)["error"]


def test_progress_comes_as_events(server, talk):
    key = server.send(talk)
    connection = http.client.HTTPConnection(server.host, timeout=60)
    connection.request("GET", f"{server.path}api/events?id={key}")
    answer = connection.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")
    states = []
    while not states or states[-1]["state"] not in ("done", "failed"):
        line = answer.readline().decode()
        if line.startswith("data: "):
            states.append(json.loads(line[6:]))
    assert states[-1]["progress"] == 1 and any(state["preview"] for state in states)
    progress = [state["progress"] for state in states]
    assert progress == sorted(progress)
    assert server.ask("DELETE", f"api/recordings/{key}")[0] == 204
    rest = answer.read().decode()
    assert "event: removed" in rest  # and the stream has ended
    connection.close()


def test_a_worker_that_was_killed_while_it_waited_costs_no_recording(server, done, talk):
    for worker in psutil.Process(server.process.pid).children():
        if "resource_tracker" not in " ".join(worker.cmdline()):
            worker.kill()
            until(lambda gone=worker: not gone.is_running() or gone.status() == "zombie")
    assert server.wait(server.send(talk, seed=5))["state"] == "done"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"RIFF\x24\x00\x00\x00WAVEnonsense", "a.wav"),
        (b"hello, this is no sound at all", "a.wav is not an audio file in a known format"),
    ],
)
def test_a_broken_file_is_one_sentence_without_paths(server, data, sentence):
    answer = server.json("POST", "api/recordings?name=..%2f..%2fetc%2fa.wav", data)
    found = server.wait(answer["id"])
    assert found["state"] == "failed" and found["name"] == "a.wav"
    assert sentence in found["error"] and str(server.folder) not in found["error"]
    assert server.ask("GET", f"api/recordings/{answer['id']}/result")[0] == 409


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("api/recordings/0/sound", 404),
        ("api/recordings?preset=magic", 405),
        ("api/archive", 400),
        ("api/events", 400),
        ("api/../api/recordings", 404),
        ("static/app.js", 404),
        ("%2e%2e/%2e%2e/etc/passwd", 404),
        ("app.py", 404),
    ],
)
def test_other_paths_are_refused(server, path, status):
    assert server.ask("GET", path)[0] == status


WRONG = "dry=2 dry=nan dry=-1 dry=x format=exe format=../../a format= loudness=1 loudness=loud"


@pytest.mark.parametrize("query", [*WRONG.split(), "echo=2", "echo=-0.1", "echo=x"])
def test_wrong_numbers_and_formats_are_refused(server, done, query):
    status, _, data = server.ask("GET", f"api/recordings/{done['id']}/result?{query}")
    assert status == 400 and json.loads(data)["error"]


def test_without_the_token_there_is_nothing(server):
    other = server.path[:-2] + ("y" if server.path[-2] == "x" else "x")
    for path in ("/", "/api/server", f"{other}/api/server", "/open/x", "//", "/%00/"):
        assert server.ask("GET", path, whole=True)[0] == 404
    status, headers, _ = server.ask("GET", server.path.rstrip("/"), whole=True)
    assert (status, headers["location"]) == (308, server.path)
    assert server.ask("GET", "/health", whole=True)[0] == 200


def test_answers_carry_a_strict_policy(server):
    _, headers, data = server.ask("GET", "")
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer" and headers["cache-control"] == "no-store"
    assert headers.get("access-control-allow-origin") is None
    assert headers.get("server") is None
    page = data.decode()
    assert not re.search(r"<script>|style=|\son\w+=|https?://", page)


def test_the_description_names_every_route(server):
    from alphamf.serving.app import _routes
    from alphamf.serving.limits import Limits

    spec = server.json("GET", "api/openapi.json")
    described = {
        (path, method.upper())
        for path, entry in spec["paths"].items()
        for method in entry
        if method != "parameters"
    }
    routes = {
        (route.path, method)
        for route in _routes(None, Limits(), lambda: False)
        for method in route.methods - {"HEAD"}
    }
    assert described - {("/api/openapi.json", "GET")} == routes


def test_states_are_as_described(server, done):
    schema = server.json("GET", "api/openapi.json")["components"]["schemas"]["Recording"]
    assert set(done) == set(schema["properties"]) == set(schema["required"])
    for part in ("about", "result", "preview"):
        assert set(done[part]) == set(schema["properties"][part]["properties"])


@pytest.mark.slow
def test_the_example_of_the_docs_runs(server, talk, tmp_path):
    page = (ROOT / "docs/page.md").read_text(encoding="utf-8")
    code = page.split("<!-- example -->\n```python\n")[1].split("```")[0]
    command = [sys.executable, "-c", code, server.page, talk.name]
    (tmp_path / talk.name).write_bytes(talk.read_bytes())
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, text=True)
    assert result.stdout.endswith("done, 100%\n")
    assert (tmp_path / "talk.denoised.wav").read_bytes() == cli(talk, tmp_path / "c.wav")
    assert len(code.splitlines()) <= 20

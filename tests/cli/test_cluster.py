"""``--cluster``: Dask in place of the pool, its workers lost, its scheduler absent, its end."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dask
import pytest
from distributed import Client, Security, rpc
from typer.testing import CliRunner

from alphamf.cli.app import app
from alphamf.tools import cluster
from alphamf.tools.extras import install_extra
from tests.support.commands import COMMAND, leave, sound
from tests.support.commands import in_a_process as run
from tests.support.commands import until as wait
from tests.support.evaluation_corpus import CORPUS, evaluate, lines, table
from tests.support.tasks import half, killed_once

QUICK = ["--steps", "20"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="signals are POSIX"),
]


def workers(address: str) -> dict[str, str]:
    """Return the addresses of a scheduler's workers by name."""
    with Client(address, set_as_default=False) as client:
        found = client.scheduler_info(n_workers=-1)["workers"]
    return {info["name"]: worker for worker, info in found.items()}


@contextmanager
def dask_processes(folder: Path, **environment: str) -> Iterator[Callable[..., subprocess.Popen]]:
    """Yield a function that starts a scheduler or a worker, which end with the block."""
    with ExitStack() as stack:

        def start(*words: object) -> subprocess.Popen:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *map(str, words), "--no-dashboard"],
                cwd=folder, env={**os.environ, **environment}, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        yield start


def scheduler(start: Callable[..., subprocess.Popen], file: Path, host: str) -> str:
    """Start a scheduler and return its address."""
    start("scheduler", "--host", host, "--port", "0", "--scheduler-file", file)
    wait(lambda: file.exists() and file.read_text().rstrip().endswith("}"))
    return json.loads(file.read_text())["address"]


@pytest.fixture(scope="module")
def remote(tmp_path_factory):
    """Start a scheduler and two workers in a folder of their own.

    Gives the address, and a function that starts another worker.
    """
    folder = tmp_path_factory.mktemp("remote")
    with dask_processes(folder, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1") as start:
        address = scheduler(start, folder / "scheduler.json", "127.0.0.1")

        def worker(name: str, threads: int = 1) -> subprocess.Popen:
            options = ("--nthreads", threads, "--no-nanny", "--name", name)
            process = start("worker", address, *options)
            wait(lambda: name in workers(address))
            return process

        worker("first")
        worker("second")
        yield address, worker


def denoise(*arguments: object):
    return CliRunner().invoke(app, ["denoise", *map(str, arguments)])


def test_files_are_those_of_the_pool(tmp_path):
    for k in range(3):
        sound(tmp_path / f"{k}.wav", seed=k)
    (tmp_path / "bad.wav").write_text("no audio")
    names = ["0.wav", "bad.wav", "1.wav", "2.wav"]
    printed = {}
    for folder, extra in (("pool", []), ("dask", ["--cluster", "local"])):
        words = [*names, "--output-dir", folder, "--jobs", "2", "--json", *extra, *QUICK]
        result = run(tmp_path, "denoise", *words)
        assert result.returncode == 2, result.stderr
        printed[folder] = [json.loads(line)["file"] for line in result.stdout.splitlines()]
        *where, error, total = result.stderr.decode().splitlines()
        assert total.startswith("3 of 4 files denoised in ")
        assert error == "Error: bad.wav is not an audio file in a known format"
        assert len(where) == (folder == "dask")
    assert where[0].startswith("Dask: 2 workers, ")
    assert printed["dask"] == printed["pool"] == names
    for name in ("0.wav", "1.wav", "2.wav"):
        assert (tmp_path / "dask" / name).read_bytes() == (tmp_path / "pool" / name).read_bytes()


def test_evaluate_gives_the_results_of_the_pool(corpus, plain_page, remote):
    address, _ = remote
    evaluate(*CORPUS, "-o", "whole")
    done = evaluate(*CORPUS, "--cluster", address, "--json")
    note, where = done.stderr.splitlines()
    assert note.startswith("Note: without TLS, everybody who can connect to --cluster tcp://")
    assert where.startswith("Dask: 2 workers")
    assert [json.loads(line) for line in done.stdout.splitlines()] == lines()
    assert table() == table("whole")
    # All is done: no cluster is needed.
    assert evaluate(*CORPUS, "--cluster", "nobody:1", "--quiet").output == ""


def test_a_lost_worker_loses_no_result(tmp_path):
    (found,) = cluster.each(killed_once, [tmp_path / "a"], workers=1, address="local")
    assert found.result == "a"


def test_nobody_answers(corpus, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 0.3)
    address = "127.0.0.1:9"
    sentence = f"no Dask scheduler answered at --cluster {address} within 0.3 s"
    result = denoise("noisy", "--cluster", address)
    assert result.exit_code == 2 and result.stderr.endswith(f"\nError: {sentence}\n")
    assert result.stderr.startswith("Note: without TLS, ")
    assert denoise("noisy", "--cluster", address, "-q").stderr == f"Error: {sentence}\n"
    printed = json.loads(denoise("noisy", "--json", "--cluster", address).stdout)
    assert printed == {"error": sentence}
    assert evaluate(*CORPUS, "--cluster", address, code=2).stderr.endswith(f"{sentence}\n")
    result = evaluate(*CORPUS, "--cluster", "there", "--quiet", code=2)
    assert result.stderr.startswith("Error: no Dask scheduler answered at --cluster there: ")


def fail(**_):
    raise RuntimeError("Cluster failed to start: TLS certificate does not match.")


@pytest.mark.parametrize(
    ("module", "found", "sentence"),
    [
        ("distributed", None, "--cluster needs the package distributed; install it with "),
        ("cryptography", None, "--cluster local needs the package cryptography: "),
        ("distributed.LocalCluster", fail, "--cluster local: Cluster failed to start: TLS"),
    ],
)
def test_what_keeps_a_local_cluster_from_its_start_is_one_sentence(
    corpus, monkeypatch, module, found, sentence
):
    if found is None:
        monkeypatch.setitem(sys.modules, module, None)
    else:
        monkeypatch.setattr(module, found)
    for result in (
        denoise("noisy", "--cluster", "local"),
        evaluate(*CORPUS, "--cluster", "local", code=2),
    ):
        assert result.exit_code == 2
        assert result.stderr.startswith(f"Error: {sentence}") and result.stderr.count("\n") == 1
        assert found or install_extra("cluster") in result.stderr


def test_a_local_cluster_admits_nobody_else_and_has_a_folder_of_its_own(tmp_path, monkeypatch):
    # Dask's own is made by whoever comes first, who may put a module there.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with cluster.connect_client("local", 1) as client:
        info = client.scheduler_info(n_workers=-1)
        ((worker, about),) = info["workers"].items()
        for address in (info["address"], worker, about["nanny"]):
            assert address.startswith("tls://127.0.0.1:")
            for other in (address, address.replace("tls", "tcp")):
                with pytest.raises((OSError, TypeError)):
                    asyncio.run(call(other))
        # Keys of another run are of no use either.
        with pytest.raises((OSError, TimeoutError)):
            asyncio.run(call(info["address"], Security.temporary()))
        assert asyncio.run(call(info["address"], client.security))
        own = Path(about["local_directory"]).relative_to(tmp_path).parts[0]
        assert own.startswith("alphamf-dask-")
        assert stat.S_IMODE((tmp_path / own).stat().st_mode) == 0o700
    assert list(tmp_path.iterdir()) == []


async def call(address: str, security: Security | None = None) -> object:
    """Ask a scheduler or a worker who it is, as anybody on this machine may."""
    async with rpc(
        address, connection_args=(security or Security()).get_connection_args("client"), timeout=2
    ) as server:
        return await server.identity()


def test_a_cluster_with_tls_needs_certificates_and_no_caution(tmp_path, monkeypatch):
    sound(tmp_path / "a.wav")
    keys = Security.temporary()
    (tmp_path / "key.pem").write_text(keys.tls_client_key)
    (tmp_path / "cert.pem").write_text(keys.tls_client_cert)
    place = "DASK_DISTRIBUTED__COMM__"
    settings = {f"{place}TLS__CA_FILE": "cert.pem", f"{place}REQUIRE_ENCRYPTION": "True"}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        settings[f"{place}TLS__{role}__KEY"] = "key.pem"
        settings[f"{place}TLS__{role}__CERT"] = "cert.pem"
    words = ("denoise", "a.wav", "--cluster")
    with dask_processes(tmp_path, **settings) as start:
        file = tmp_path / "scheduler.json"
        address = scheduler(start, file, "tls://127.0.0.1")
        start("worker", "--scheduler-file", file, "--nthreads", "1", "--no-nanny")
        refused = run(tmp_path, *words, address, *QUICK)
        sentence = f"Error: no Dask scheduler answered at --cluster {address}: ".encode()
        assert refused.returncode == 2 and refused.stderr.startswith(sentence)
        done = run(tmp_path, *words, address, *QUICK, env={**os.environ, **settings})
    assert (done.returncode, done.stderr.count(b"\n")) == (0, 1), done.stderr
    assert done.stderr.startswith(b"Dask: 1 worker, ")


def test_a_worker_that_does_not_fit_is_refused(corpus, remote, monkeypatch):
    address, worker = remote
    with monkeypatch.context() as patch:
        patch.setattr(cluster, "version", lambda name: "9.9")
        result = evaluate(*CORPUS, "--cluster", address, "--quiet", code=2)
    assert result.stderr.startswith("Error: --cluster: worker tcp://127.0.0.1:")
    assert " has alphamf 0.1.0, but this machine has 9.9\n" in result.stderr
    with monkeypatch.context() as patch:
        patch.setattr(os, "getcwd", lambda: "/nowhere")
        result = evaluate(*CORPUS, "--cluster", address, code=2)
    assert result.stderr.endswith(" cannot find the folder /nowhere\n")
    wide = worker("wide", threads=2)
    result = evaluate(*CORPUS, "--cluster", address, code=2)
    wide.kill()
    wait(lambda: "wide" not in workers(address))
    assert result.stderr.endswith(" has 2 threads; start it with --nthreads 1\n")
    assert not lines()


def test_an_item_that_kills_its_worker_is_an_error_and_the_others_are_done():
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        found = list(cluster.each(half, [13, 4, 5], workers=1, address="local"))
    assert [outcome.item for outcome in found] == [13, 4, 5]
    assert [outcome.code for outcome in found] == [1, 0, 2]
    assert "killed several times" in found[0].error
    assert found[1].result == 2 and found[2].error == "5 is odd"


@pytest.mark.parametrize(("where", "number"), [("local", signal.SIGINT), ("", signal.SIGTERM)])
def test_a_stop_ends_the_tasks_and_leaves_nothing_behind(tmp_path, remote, where, number):
    sound(tmp_path / "a.wav", 5)
    words = ["--steps", "100000", "--jobs", "1", "--cluster", where or remote[0], "--quiet"]
    process = subprocess.Popen(
        [*COMMAND, "denoise", ".", *words],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        wait(lambda: list(tmp_path.glob(".*.part")))
        time.sleep(0.3)  # past the imports, which may lose an exception that a signal raises
        os.killpg(process.pid, number)
        output, errors = process.communicate(timeout=90)
    finally:
        leave(process)
    assert (process.returncode, output, errors) == (128 + number, b"", b"")
    wait(lambda: os.listdir(tmp_path) == ["a.wav"])
    with Client(remote[0], set_as_default=False) as client:
        assert not any(client.processing().values())

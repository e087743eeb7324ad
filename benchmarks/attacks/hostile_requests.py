"""Two hundred hostile requests to `alphamf serve`, while it denoises a recording.

python -m benchmarks.attacks.hostile_requests

Each kind of request is sent with variations drawn from a seed; only 127.0.0.1 is asked. Afterwards
the result must be the same as without them, and the server must leave no temporary files.
"""

import hashlib
import random
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.page_server import Server, running
from benchmarks.report import SAMPLE, run_main

SECRET = "a line that no answer may hold"
COUNT = 200

Answer = bytes
Attack = Callable[[Server, random.Random], Answer]


def raw(server: Server, data: bytes, *, wait: float = 30, close: bool = False) -> Answer:
    """Send bytes and return the answer; with `close`, hang up at once and return nothing."""
    host, port = server.host.split(":")
    found = b""
    with socket.create_connection((host, int(port)), timeout=wait) as connection:
        try:
            connection.sendall(data)
            if close:
                return b""
            while part := connection.recv(65536):
                found += part
        except (TimeoutError, ConnectionError):
            pass
    return found


def request(
    server: Server, line: str, headers: str = "", body: bytes = b"", **more: bool
) -> Answer:
    """Send a request and return the answer; TOKEN in the first line becomes the page's token."""
    line = line.replace("TOKEN/", server.path[1:])
    if "host:" not in headers.lower():
        headers += f"Host: {server.host}\r\n"
    headers += "".join(f"{name}: {value}\r\n" for name, value in server.headers.items())
    head = f"{line} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"
    return raw(server, head.encode("latin-1", "replace") + body, **more)


def paths(server: Server, rng: random.Random) -> Answer:
    """Ask for files outside, by paths of many spellings."""
    up = rng.choice(["../", "%2e%2e/", "..%2f", "....//", "%252e%252e/", "..\\", "%c0%ae%c0%ae/"])
    place = rng.choice(["etc/passwd", "secret", "proc/self/environ", "app.py"])
    start = rng.choice(["/TOKEN/", "/TOKEN/api/", "/TOKEN/api/recordings/", "/", "/static/", "//"])
    return request(server, f"GET {start}{up * rng.randint(1, 9)}{place}")


def names(server: Server, rng: random.Random) -> Answer:
    """Upload under names that are paths, controls or too long."""
    name = rng.choice(
        ["../../../tmp/x.wav", "/etc/cron.d/x", "..%00.wav", "con", "%0d%0aSet-Cookie:%20a=b",
         "x" * 4000, "%E2%80%AE.wav", "%3Cscript%3Ealert(1)%3C/script%3E", "%ff%fe", "-rf.wav",
         ".", "%2e%2e"]
    )  # fmt: skip
    line = f"POST /TOKEN/api/recordings?name={name}&preset=fast"
    return request(server, line, "Content-Length: 4\r\n", b"RIFF")


def heads(server: Server, rng: random.Random) -> Answer:
    """Send heads that are huge, many, doubled or no HTTP."""
    huge = "a" * rng.choice([20_000, 100_000, 400_000])
    headers, line = rng.choice(
        [
            (f"X-A: {huge}\r\n", "GET /TOKEN/"),
            ("".join(f"X-{k}: {k}\r\n" for k in range(5000)), "GET /TOKEN/"),
            ("", f"GET /TOKEN/{huge}"),
            ("Content-Length: -1\r\n", "POST /TOKEN/api/recordings"),
            ("Content-Length: 99999999999999999999\r\n", "POST /TOKEN/api/recordings"),
            ("Content-Length: 3\r\nContent-Length: 9\r\n", "POST /TOKEN/api/recordings"),
            ("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "POST /TOKEN/api/recordings"),
            ("Upgrade: websocket\r\nConnection: Upgrade\r\n", "GET /TOKEN/"),
            ("", "OPTIONS *"),
            ("", "\0\1\2"),
        ]
    )
    return request(server, line, headers)


def kinds(server: Server, rng: random.Random) -> Answer:
    """Send forms, texts and methods that other sites can make a browser send."""
    kind = rng.choice(["multipart/form-data; boundary=x", "text/plain", "text/html", "image/png"])
    method = rng.choice(["POST", "PUT", "PATCH", "TRACE", "DELETE", "PROPFIND"])
    values = rng.choice([[kind], [kind, "audio/wav"], ["audio/wav", kind]])
    headers = "".join(f"Content-Type: {each}\r\n" for each in values) + "Content-Length: 9\r\n"
    return request(server, f"{method} /TOKEN/api/recordings", headers, b"--x\r\n\r\n--")


def origins(server: Server, rng: random.Random) -> Answer:
    """Ask from other sites, also with a header of this page beside."""
    name, value = rng.choice(
        [("Origin", "http://evil.example"), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site"),
         ("Sec-Fetch-Site", "same-site"), ("Origin", "http://127.0.0.1"), ("Origin", "file://"),
         ("Origin", "http://[")]
    )  # fmt: skip
    own = f"http://{server.host}" if name == "Origin" else "same-origin"
    values = rng.choice([[value], [value, own], [own, value]])
    headers = "".join(f"{name}: {each}\r\n" for each in values)
    line = rng.choice(["GET /TOKEN/api/server", "POST /TOKEN/api/recordings"])
    return request(server, line, f"{headers}Content-Length: 0\r\n")


def hosts(server: Server, rng: random.Random) -> Answer:
    """Ask under names that a rebinding attack would use."""
    host = rng.choice(
        ["evil.example", "127.0.0.1.evil.example", "[::1", "", "a@127.0.0.1", "127.0.0.1, evil",
         "0.0.0.0"]
    )  # fmt: skip
    extra = rng.choice(["", f"Host: {server.host}\r\n"])
    return request(server, "GET /TOKEN/api/server", f"Host: {host}\r\n{extra}")


def halves(server: Server, rng: random.Random) -> Answer:
    """Leave in the middle of an upload, or promise more than comes."""
    headers = f"Content-Length: {rng.choice([1000, 10**6])}\r\n"
    body = rng.randbytes(500)
    return request(server, "POST /TOKEN/api/recordings", headers, body, close=True)


def slow(server: Server, rng: random.Random) -> Answer:
    """Send an upload, or a head, that comes to a stop."""
    if rng.random() < 0.5:
        return raw(server, b"GET / HTTP/1.1\r\nHos", wait=60)
    return request(
        server, "POST /TOKEN/api/recordings", "Content-Length: 900\r\n", b"RIFF", wait=60
    )


def sounds(server: Server, rng: random.Random) -> Answer:
    """Upload what is no sound, or lies about its length."""
    data = SAMPLE.read_bytes()
    at = rng.randrange(12, 60)
    broken = rng.choice(
        [
            rng.randbytes(3000),
            data[: rng.randrange(1, 400)],
            data[:at] + rng.randbytes(4) + data[at + 4 : 20_000],
            b"fLaC" + rng.randbytes(500),
            b"OggS" + rng.randbytes(500),
            b"ID3\x04\0\0" + rng.randbytes(500),
        ]
    )
    line = "POST /TOKEN/api/recordings?preset=fast"
    return request(server, line, f"Content-Length: {len(broken)}\r\n", broken)


def cancels(server: Server, rng: random.Random) -> Answer:
    """Upload a recording, and cancel it several times at once."""
    key = server.send(SAMPLE)
    time.sleep(rng.random())
    line = f"DELETE /TOKEN/api/recordings/{key}"
    with ThreadPoolExecutor(3) as pool:
        return b"".join(pool.map(lambda _: request(server, line), range(3)))


def queries(server: Server, rng: random.Random) -> Answer:
    """Ask with numbers and names that make no sense."""
    query = rng.choice(
        ["start=-1", "start=1e9", "frames=99999999999999", "of=../source", "first=x", "dry=nan",
         "dry=1e400", "format=../../x", "id=" + "a" * 3000, "seed=" + "9" * 5000, "preset=rm%20-rf"]
    )  # fmt: skip
    where = rng.choice(["recordings/0/sound", "recordings/0/picture", "recordings/0/result",
                        "archive", "events", "recordings"])  # fmt: skip
    method = "POST" if where == "recordings" else "GET"
    return request(server, f"{method} /TOKEN/api/{where}?{query}", "Content-Length: 0\r\n")


ATTACKS: tuple[Attack, ...] = (
    paths, names, heads, kinds, origins, hosts, halves, slow, sounds, cancels, queries,
)  # fmt: skip


def status(answer: Answer) -> str:
    """Return the status of an answer, or ``closed`` where there was none."""
    words = answer.split(b" ", 2)
    return words[1].decode() if len(words) > 1 else "closed"


def problems(answer: Answer) -> list[str]:
    """Return names of the things in an answer that it must not contain."""
    bad = {
        "a traceback": b"Traceback",
        "a file of the system": b"root:",
        "the secret": SECRET.encode(),
        "a path of the server": b"alphamf-serve-",
        "a header of the client": b"\nSet-Cookie",
    }
    return [what for what, part in bad.items() if part in answer]


def run(folder: Path, count: int = COUNT, seed: int = 1) -> tuple[Counter[str], list[str]]:
    """Send the requests; return counts of answers by kind and status, and what was wrong."""
    (folder / "secret").write_text(SECRET)
    answers: Counter[str] = Counter()
    found: list[str] = []
    with running(folder / "tmp", "--jobs", "1") as server:
        alone = digest(server, server.send(SAMPLE))
        kept = server.send(SAMPLE)

        def attack(k: int) -> None:
            kind = ATTACKS[k % len(ATTACKS)]
            answer = kind(server, random.Random(f"{seed} {k}"))
            answers[f"{kind.__name__} {status(answer)}"] += 1
            found.extend(f"{kind.__name__}: {what}" for what in problems(answer))
            if kind is origins and status(answer) != "403":
                found.append(f"origins: another site gets {status(answer)}")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(attack, range(count)))
        if digest(server, kept) != alone:
            found.append("the recording that was denoised meanwhile is another")
        if server.ask("GET", "/health", whole=True)[0] != 200:
            found.append("the server does not answer")
        if server.stop() not in (0, 143):
            found.append("the server did not end")
        said = (folder / "tmp.log").read_text()
        found += ["a traceback in the terminal"] if "Traceback" in said else []
    found += [f"left: {path}" for path in (folder / "tmp").rglob("*")]
    return answers, found


def digest(server: Server, key: str) -> str:
    """Wait for a recording, and return a digest of its result."""
    server.wait(key)
    return hashlib.sha256(server.ask("GET", f"api/recordings/{key}/result")[2]).hexdigest()


def main(*, count: int = COUNT, seed: int = 1) -> None:
    """Send the requests, and print the answers and what was wrong."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        answers, found = run(Path(folder), count, seed)
    print("| requests | answers |\n|---|---|")
    for kind in ATTACKS:
        statuses = {
            key.split()[1]: n for key, n in answers.items() if key.split()[0] == kind.__name__
        }
        listed = ", ".join(f"{code}: {n}" for code, n in sorted(statuses.items()))
        print(f"| {(kind.__doc__ or '').rstrip('.')} | {listed} |")
    print(
        f"\n{sum(answers.values())} requests in {time.monotonic() - started:.0f} s; wrong: {found}"
    )
    raise SystemExit(bool(found))


if __name__ == "__main__":
    run_main(main)

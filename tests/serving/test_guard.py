"""Headers that come several times: each value is looked at."""

import asyncio

import pytest

pytest.importorskip("starlette", reason="the extra web is not installed")

from starlette.exceptions import HTTPException
from starlette.requests import Request

from alphamf.serving import routes
from alphamf.serving.guard import Guard
from alphamf.serving.limits import Limits

TOKEN = "a-token-of-this-test"
GOOD = {
    "host": "127.0.0.1:8000",
    "origin": "http://127.0.0.1:8000",
    "sec-fetch-site": "same-origin",
    "sec-fetch-mode": "cors",
}
BAD = [
    ("host", "evil.example", 421),
    ("host", "127.0.0.1.evil.example", 421),
    ("host", "127.0.0.1@evil.example", 421),
    ("host", "[::1", 421),
    ("host", "", 421),
    ("origin", "http://evil.example", 403),
    ("origin", "http://127.0.0.1:1", 403),
    ("origin", "http://[", 403),
    ("origin", "null", 403),
    ("origin", "", 403),
    ("sec-fetch-site", "cross-site", 403),
    ("sec-fetch-site", "same-site", 403),
    ("sec-fetch-site", "", 403),
]
ORDERS = {
    "alone": lambda good, bad: [bad],
    "first": lambda good, bad: [bad, good],
    "last": lambda good, bad: [good, bad],
    "between": lambda good, bad: [good, bad, good],
}


def status(headers: list[tuple[str, str]], path: str = f"/{TOKEN}/api/server") -> int:
    """Return the status of the answer to a request; 200 where it is let through."""
    sent = []

    async def inner(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        sent.append(message)

    pairs = [(name.encode(), value.encode()) for name, value in headers]
    scope = {"type": "http", "method": "GET", "path": path, "headers": pairs, "state": {}}
    asyncio.run(Guard(inner, TOKEN)(scope, None, send))
    return sent[0]["status"]


def test_the_headers_of_the_page_are_let_through():
    assert status(list(GOOD.items())) == 200
    assert status([("host", GOOD["host"])]) == 200
    assert status([("host", GOOD["host"]), ("sec-fetch-site", "same-origin")]) == 200


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("name", "value", "refused"), BAD)
def test_a_wrong_value_is_refused_wherever_it_stands(name, value, refused, order):
    others = [pair for pair in GOOD.items() if pair[0] != name]
    values = ORDERS[order](GOOD[name], value)
    assert status([*others, *((name, each) for each in values)]) == refused


@pytest.mark.parametrize("modes", [["cors", "navigate"], ["navigate", "cors"], []])
def test_only_what_navigates_alone_may_come_from_elsewhere(modes):
    headers = [("host", GOOD["host"]), ("sec-fetch-site", "cross-site")]
    assert status([*headers, ("sec-fetch-mode", "navigate")], f"/{TOKEN}/") == 200
    assert status([*headers, *(("sec-fetch-mode", mode) for mode in modes)], f"/{TOKEN}/") == 403


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["text/plain", "application/json", "multipart/form-data"])
def test_an_upload_of_several_types_has_none_of_another_kind(kind, order, tmp_path):
    values = ORDERS[order]("audio/wav", kind)
    headers = [(b"content-type", value.encode()) for value in values]
    request = Request({"type": "http", "method": "POST", "headers": headers})
    with pytest.raises(HTTPException) as refusal:
        routes.check(request, Limits(spare=0), tmp_path)
    assert refusal.value.status_code == 415

"""Who may see what: keys, tenants that cannot collide, and routes that are the operator's alone."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.server.access import namespace_of
from anaphora.server.app import build_app
from anaphora.server.settings import ServerSettings
from anaphora.tokenizer.tokenizer import Tokenizer
from tests.server.scripted_backend import ScriptedBackend

OPERATOR = [
    ("GET", "/metrics"),
    ("POST", "/reset_prefix_cache"),
    ("GET", "/cache/requests/cmpl-1"),
    ("GET", "/cache/tree"),
    ("GET", "/cache/pins"),
    ("POST", "/cache/pins"),
    ("DELETE", "/cache/pins/system"),
]
KEYED = [
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/demo"),
]
PASSED = {
    ("GET", "/cache/requests/cmpl-1"): 404,
    ("POST", "/cache/pins"): 400,
    ("DELETE", "/cache/pins/system"): 404,
}
"""Status of an operator's route that let the request in, where it is not 200."""
OPEN = [("GET", "/health"), ("GET", "/version")]
REMOTE = ("203.0.113.9", 5000)
LOCAL = ("127.0.0.1", 5000)


@pytest.fixture
def backend(tiny_model: Path) -> ScriptedBackend:
    return ScriptedBackend(Tokenizer.from_folder(tiny_model))


def status(
    backend: ScriptedBackend,
    route: tuple[str, str],
    headers: Any = None,
    *,
    client: tuple[str, int] = LOCAL,
    base_url: str = "http://localhost:8000",
    api_keys: tuple[str, ...] = (),
    admin_key: str | None = None,
    public_metrics: bool = False,
) -> int:
    """Status of one request from ``client``; a body that is no JSON is 400 once the key was accepted."""
    settings = ServerSettings(
        served_model_names=("demo",), api_keys=api_keys, admin_key=admin_key, public_metrics=public_metrics
    )

    async def ask() -> int:
        transport = httpx.ASGITransport(build_app(backend, settings), client=client)
        async with httpx.AsyncClient(transport=transport, base_url=base_url) as http:
            return (await http.request(*route, headers=headers)).status_code

    return asyncio.run(ask())


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize("route", KEYED)
def test_the_api_needs_a_key_when_there_are_keys(backend: ScriptedBackend, route: tuple[str, str]) -> None:
    accepted = 400 if route[0] == "POST" else 200
    assert status(backend, route) == accepted
    basic, not_ascii = {"Authorization": "Basic one"}, {b"Authorization": b"Bearer \xf6ne"}
    for headers in (None, bearer("wrong"), bearer(""), basic, bearer("admin"), not_ascii):
        assert status(backend, route, headers, api_keys=("one", "two"), admin_key="admin") == 401
    for key in ("one", "two"):
        assert status(backend, route, bearer(key), api_keys=("one", "two")) == accepted
    assert status(backend, route, {"authorization": "bearer  one"}, api_keys=("one",)) == accepted


@pytest.mark.parametrize("route", OPEN)
def test_health_and_version_are_open(backend: ScriptedBackend, route: tuple[str, str]) -> None:
    assert status(backend, route, client=REMOTE, api_keys=("one",), admin_key="admin") == 200


@pytest.mark.parametrize("route", OPERATOR)
def test_without_an_admin_key_only_this_machine_operates(backend: ScriptedBackend, route: tuple[str, str]) -> None:
    passed = PASSED.get(route, 200)
    assert status(backend, route) == passed
    for host in ("127.8.8.8", "::1", "::ffff:127.0.0.1"):
        assert status(backend, route, client=(host, 1)) == passed
    for base_url in ("http://127.0.0.1", "http://[::1]:9"):
        assert status(backend, route, base_url=base_url) == passed
    assert status(backend, route, client=REMOTE) == 403
    assert status(backend, route, {"Origin": "http://localhost:8000"}) == 403
    assert status(backend, route, base_url="http://rebound.example:8000") == 403
    for header in ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"):
        assert status(backend, route, {header: "127.0.0.1"}) == 403
    assert status(backend, route, bearer("one"), client=REMOTE, api_keys=("one",)) == 403


@pytest.mark.parametrize("route", OPERATOR)
def test_with_an_admin_key_nobody_operates_without_it(backend: ScriptedBackend, route: tuple[str, str]) -> None:
    for client in (LOCAL, REMOTE):
        assert status(backend, route, bearer("admin"), client=client, admin_key="admin") == PASSED.get(route, 200)
        assert status(backend, route, client=client, admin_key="admin") == 401
        assert status(backend, route, bearer("one"), client=client, admin_key="admin", api_keys=("one",)) == 401


def test_public_metrics_open_that_route_only(backend: ScriptedBackend) -> None:
    for admin_key in (None, "admin"):
        metrics, *others = OPERATOR
        assert status(backend, metrics, client=REMOTE, admin_key=admin_key, public_metrics=True) == 200
        for route in others:
            assert status(backend, route, client=REMOTE, admin_key=admin_key, public_metrics=True) in (401, 403)


def test_no_key_and_no_salt_is_the_default_tenant() -> None:
    assert namespace_of(None, None) == ""


key_digests = st.none() | st.binary(min_size=32, max_size=32)
salts = st.none() | st.text(min_size=1, max_size=128)


@given(key_digests, salts, key_digests, salts)
def test_different_tenants_have_different_namespaces(
    key: bytes | None, salt: str | None, other_key: bytes | None, other_salt: str | None
) -> None:
    same = (key, salt) == (other_key, other_salt)
    assert (namespace_of(key, salt) == namespace_of(other_key, other_salt)) == same


def test_a_salt_that_looks_like_a_namespace_is_only_a_salt() -> None:
    key = bytes(32)
    alone, salted = namespace_of(key, None), namespace_of(key, "x")
    assert len({alone, salted, namespace_of(None, alone), namespace_of(None, salted), namespace_of(key, alone)}) == 5

"""A key goes to its server in one header and nowhere else: not into records, reports, errors or logs, not past a
redirect, and not back out of what a server echoes."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from anaphora.errors import AnaphoraError
from anaphora.lab.bench import run_bench
from anaphora.lab.doctor.visits import visit_server
from anaphora.lab.experiments.switch import SwitchSettings
from anaphora.lab.masking import MASK, Masking
from anaphora.lab.options import BenchOptions
from anaphora.lab.profiles.profile import Profile
from anaphora.lab.profiles.store import ProfileStore
from anaphora.lab.progress import Progress
from anaphora.lab.report import write_report
from tests.lab.fakes import Canned, FakeServing, Route, as_json, openai_routes, serving_at

KEY, HEADER = "sk-live-0123456789abcdef", "gateway-9876543210"


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProfileStore:
    monkeypatch.setenv("ANAPHORA_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("CLOUD_KEY", KEY)
    monkeypatch.setenv("GATEWAY_KEY", HEADER)
    return ProfileStore()


def echoing(routes: Mapping[str, Route], seen: list[Mapping[str, str]]) -> dict[str, Route]:
    """A server that writes what it was sent into everything that it answers."""

    def echo(route: Route) -> Route:
        def answer(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
            seen.append(headers)
            canned = route(body, headers)
            said = f"{headers.get('authorization')} {headers.get('x-gateway')}"
            writes = tuple(piece.replace(b"word0", said.encode()) for piece in canned.writes)
            return Canned(canned.status, canned.content_type, writes)

        return answer

    return {name: echo(route) for name, route in routes.items()}


def add(store: ProfileStore, port: int) -> None:
    headers = {"X-Gateway": "$GATEWAY_KEY"}
    base_url = f"http://127.0.0.1:{port}"
    store.add(Profile(name="cloud", base_url=base_url, api_key_env="CLOUD_KEY", headers=headers))


def test_nothing_that_a_run_leaves_holds_a_key_although_the_server_echoes_it(
    profile: ProfileStore, tmp_path: Path
) -> None:
    seen: list[Mapping[str, str]] = []

    async def run() -> None:
        async with serving_at(echoing(openai_routes(FakeServing()), seen)) as port:
            add(profile, port)
            settings = SwitchSettings(prefix_tokens=64, num_questions=2, output_tokens=2)
            options = BenchOptions(experiments=(settings,), target="cloud", arms="nonce")
            (tmp_path / "run").mkdir()
            await run_bench(options, tmp_path / "run", Progress(Console(quiet=True)))

    asyncio.run(run())
    write_report(tmp_path / "run")
    assert seen[-1]["authorization"] == f"Bearer {KEY}"
    assert seen[-1]["x-gateway"] == HEADER
    files = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    assert MASK in files["records.jsonl"].decode()  # the echo is there, masked
    assert b'"api_key_env": null' in files["records.jsonl"]  # the profile's name is enough to find it again
    for name, content in files.items():
        assert KEY.encode() not in content, name
        assert HEADER.encode() not in content, name
    stored = profile.path.read_text("utf-8")
    assert KEY not in stored
    assert HEADER not in stored


@pytest.mark.parametrize("pad", [0, 150, 190], ids=lambda pad: f"after {pad} characters")
@pytest.mark.parametrize("status", [200, 400, 401, 500])
def test_an_error_that_echoes_a_key_is_told_without_it(
    status: int, pad: int, profile: ProfileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        words = f"{'x' * pad} bad key {headers.get('authorization')} in {headers.get('x-gateway')}"
        return as_json({"error": {"message": words}}, status)

    async def run(routes: Mapping[str, Route]) -> str:
        async with serving_at(routes) as port:
            add(profile, port)
            try:
                return json.dumps([(check.seen, check.fix) for check in await visit_server("cloud", wait_s=0.1)])
            except AnaphoraError as error:
                return str(error)

    everything = dict.fromkeys(openai_routes(FakeServing()), refuse)
    said = asyncio.run(run(everything))
    profile.remove("cloud")
    said += asyncio.run(run({**openai_routes(FakeServing()), "POST /v1/chat/completions": refuse}))
    for secret in (KEY, HEADER, KEY[:10], HEADER[:10]):
        assert secret not in said


def test_a_key_never_follows_a_redirect(profile: ProfileStore) -> None:
    reached: list[Mapping[str, str]] = []

    def elsewhere(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        reached.append(headers)
        return as_json({"data": []})

    async def run() -> str:
        async with serving_at({"GET /v1/models": elsewhere, "POST /v1/chat/completions": elsewhere}) as other:

            def moved(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
                return Canned(307, headers=(f"Location: http://localhost:{other}/v1/models?k={KEY}",))

            async with serving_at({"GET /v1/models": moved, "POST /v1/chat/completions": moved}) as port:
                add(profile, port)
                return json.dumps([(check.seen, check.fix) for check in await visit_server("cloud", wait_s=0.1)])

    said = asyncio.run(run())
    assert "redirects to http://localhost" in said
    assert KEY not in said
    assert reached == []


def test_masking_shows_nothing_and_leaves_short_stand_ins_alone() -> None:
    masking = Masking(["Bearer abcdefghij", "EMPTY", None, ""])
    assert masking.text("a Bearer abcdefghij, b abcdefghij, EMPTY") == f"a {MASK}, b {MASK}, EMPTY"
    assert masking.data(b"x=abcdefghij") == f"x={MASK}".encode()
    assert "abcdefghij" not in repr(masking)

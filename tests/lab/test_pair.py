"""One experiment on two targets: both reports, and what a reader sees of them side by side."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from anaphora.cli.main import run
from anaphora.lab.money import Prices
from anaphora.lab.profiles.profile import Profile
from anaphora.lab.profiles.store import ProfileStore
from tests.lab.fakes import FakeServing, openai_routes, serving_at
from tests.lab.test_session import served

ASK = ["--prefix-tokens", "64", "--questions", "3", "--output-tokens", "2"]


@contextmanager
def two_servers(*servings: FakeServing) -> Iterator[list[int]]:
    """Fakes that serve in a loop of their own while the command runs in this thread."""
    ports: list[int] = []
    ready, done = threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving_at(openai_routes(servings[0])) as a, serving_at(openai_routes(servings[1])) as b:
            ports.extend((a, b))
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(60)
        yield ports
    finally:
        done.set()
        thread.join()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProfileStore:
    monkeypatch.setenv("ANAPHORA_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "120")
    return ProfileStore()


def test_two_profiles_are_measured_and_put_side_by_side(
    store: ProfileStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = Prices(input=1000.0, cached=100.0, output=2000.0, currency="CNY")
    with two_servers(FakeServing(), FakeServing(shows_cached=False)) as ports:
        store.add(Profile(name="near", base_url=f"http://127.0.0.1:{ports[0]}", prices=prices))
        store.add(Profile(name="cloud", base_url=f"http://127.0.0.1:{ports[1]}", kind="openai"))
        folder = tmp_path / "pair"
        command = ["bench", "switch", "--target", "near", "--compare", "cloud", *ASK, "--out", str(folder)]
        assert run(command) == 0
    said = capsys.readouterr().out
    assert "Side by side" in said
    assert str(folder / "comparison.html") in said.replace("\n", "")
    for name in "ab":
        assert (folder / name / "report.html").exists()
    data = json.loads((folder / "comparison.json").read_text("utf-8"))
    assert [target["profile"] for target in data["targets"]] == ["near", "cloud"]
    assert [target["kind"] for target in data["targets"]] == ["vLLM", "OpenAI"]
    page = (folder / "comparison.html").read_text("utf-8")
    assert "CNY" in page
    assert "no prices" in page
    assert "unknown" in page  # the second tells no cached tokens: that is not 0
    assert "a/report.html" in page
    assert "anaphora bench switch" in page
    assert "--compare cloud" in page


def test_a_second_target_that_cannot_be_meant_is_told_before_anything_is_measured(
    store: ProfileStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.add(Profile(name="near", base_url="http://127.0.0.1:1"))
    folder = tmp_path / "pair"
    assert run(["bench", "switch", "--target", "near", "--compare", "clowd", *ASK, "--out", str(folder)]) == 2
    assert "no profile is called 'clowd'" in capsys.readouterr().err
    assert not folder.exists()


@pytest.mark.parametrize("silent", ["--target", "--compare"])
def test_a_target_that_does_not_answer_is_told_before_the_other_is_measured(
    store: ProfileStore, tmp_path: Path, capsys: pytest.CaptureFixture[str], silent: str
) -> None:
    serving = FakeServing()
    with served(serving) as url:
        targets = {"--target": url, "--compare": url, silent: "http://127.0.0.1:1"}
        folder = tmp_path / "pair"
        words = [word for pair in targets.items() for word in pair]
        assert run(["bench", "switch", *words, *ASK, "--out", str(folder)]) == 2
    said = capsys.readouterr().err
    assert "nothing answers at http://127.0.0.1:1" in said
    assert serving.num_requests == 0
    assert not folder.exists()


def test_what_is_left_if_the_second_target_fails_amid(
    store: ProfileStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = FakeServing(fails=lambda n: "gone" if n > 8 else None)
    folder = tmp_path / "pair"
    with two_servers(FakeServing(), broken) as ports:
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        command = ["bench", "switch", "--target", urls[0], "--compare", urls[1], *ASK, "--out", str(folder)]
        assert run(command) == 2
        said = capsys.readouterr().err
        assert f"`anaphora compare {folder / 'a'} {folder / 'b'} --anyway`" in said
        assert f"--resume {folder / 'b'}`" in said
        assert (folder / "a" / "report.html").exists()
    assert run(["compare", str(folder), str(folder / "a")]) == 2
    assert f"holds two runs: give {folder / 'a'} or {folder / 'b'}" in capsys.readouterr().err

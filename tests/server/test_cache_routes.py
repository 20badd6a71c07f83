"""Pins and the prefix index over HTTP, on a real engine with 16 blocks of 16 tokens."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from anaphora.checkpoints.checkpoint import Checkpoint
from anaphora.engine import EngineConfig
from anaphora.engine.startup import LoadedEngine, load_engine
from anaphora.server.settings import ServerSettings
from tests.server.live import MODEL, client_of, serving

NUM_BLOCKS = 16
BOUNDS = {"max_blocks": NUM_BLOCKS // 2, "max_pins": 256}
SYSTEM = list(range(20, 84))
"""4 blocks."""


class Clock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def shared(tiny_model: Path, clock: Clock) -> Iterator[httpx.Client]:
    def load(config: EngineConfig, checkpoint: Checkpoint | None) -> LoadedEngine:
        loaded = load_engine(config, checkpoint)
        loaded.core.clock = clock
        return loaded

    with (
        serving(tiny_model, load=load, num_gpu_blocks_override=NUM_BLOCKS, eviction_policy="lru") as server,
        client_of(server) as client,
    ):
        yield client


@pytest.fixture
def http(shared: httpx.Client) -> httpx.Client:
    """With nothing cached and nothing pinned."""
    assert shared.post("/reset_prefix_cache").status_code == 200
    return shared


def ask(http: httpx.Client, prompt: str | list[int], **fields: Any) -> int:
    """Cached tokens of a completion."""
    body = {"model": MODEL, "prompt": prompt, "max_tokens": 1, "temperature": 0, **fields}
    answer = http.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    num_cached: int = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return num_cached


def fill(http: httpx.Client) -> None:
    """Four other prompts of 8 blocks: together twice what the cache holds."""
    for first in range(100, 104):
        ask(http, [first, *range(200, 327)])


def refusal(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    return error


def test_what_is_pinned_is_a_hit_after_everything_else_was_evicted(http: httpx.Client) -> None:
    ask(http, [*SYSTEM, 1])
    fill(http)
    assert ask(http, [*SYSTEM, 2]) == 0
    pin = http.post("/cache/pins", json={"prompt": [*SYSTEM, 3, 4], "id": "system"})
    expected = {"id": "system", "tenant": "default", "num_blocks": 4, "num_tokens": 64, "expires_in_s": None}
    assert (pin.status_code, pin.json()) == (200, {**expected, "prompt_tokens": 66})
    fill(http)
    assert ask(http, [*SYSTEM, 5]) == 64
    assert http.get("/cache/pins").json() == {"pins": [expected], "num_blocks": 4, **BOUNDS}
    assert http.delete("/cache/pins/system").json() == {"id": "system", "deleted": True}
    assert refusal(http.delete("/cache/pins/system"), 404)["message"] == "there is no pin 'system'"
    fill(http)
    assert ask(http, [*SYSTEM, 6]) == 0


def test_a_pin_ends_when_its_time_is_over(http: httpx.Client, clock: Clock) -> None:
    ask(http, [*SYSTEM, 1])
    pin = http.post("/cache/pins", json={"prompt": SYSTEM, "ttl_s": 60}).json()
    assert pin["id"].startswith("pin-")
    assert pin["expires_in_s"] == 60
    clock.now_s += 59.5
    assert [left["expires_in_s"] for left in http.get("/cache/pins").json()["pins"]] == [0.5]
    fill(http)
    assert ask(http, [*SYSTEM, 2]) == 64
    clock.now_s += 0.5
    assert http.get("/cache/pins").json() == {"pins": [], "num_blocks": 0, **BOUNDS}
    fill(http)
    assert ask(http, [*SYSTEM, 3]) == 0


def test_text_and_messages_are_pinned_as_they_are_asked(http: httpx.Client) -> None:
    system = {"role": "system", "content": "You answer briefly, and say so where you do not know."}
    chat = {"model": MODEL, "messages": [system, {"role": "user", "content": "hi"}], "max_tokens": 1}
    assert http.post("/v1/chat/completions", json=chat).status_code == 200
    pin = http.post("/cache/pins", json={"messages": [system]}).json()
    assert pin["num_tokens"] == pin["prompt_tokens"] // 16 * 16 > 0
    ask(http, system["content"], cache_salt="s")
    pin = http.post("/cache/pins", json={"prompt": system["content"], "cache_salt": "s"}).json()
    assert pin["num_tokens"] == pin["prompt_tokens"] // 16 * 16 > 0
    assert pin["tenant"].startswith("default:salt-")


def test_what_is_not_cached_or_too_much_is_not_pinned(http: httpx.Client) -> None:
    error = refusal(http.post("/cache/pins", json={"prompt": SYSTEM}), 409)
    assert error["code"] == "cannot_pin"
    assert error["message"].startswith("nothing of this prefix is cached as a full block")
    prompt = list(range(20, 180))
    ask(http, prompt)
    error = refusal(http.post("/cache/pins", json={"prompt": prompt}), 409)
    assert error["message"].startswith("10 blocks would be pinned, and at most 8 may be: ")
    assert http.get("/cache/pins").json()["pins"] == []


def test_how_much_may_be_pinned_is_a_setting_and_without_a_cache_nothing_may(tiny_model: Path) -> None:
    options: dict[str, Any] = {"num_gpu_blocks_override": NUM_BLOCKS}
    for more, message in (
        ({"max_pinned_share": 0.2}, "4 blocks would be pinned, and at most 3 may be"),
        ({"enable_prefix_caching": False}, "prefix caching is off"),
    ):
        with (
            serving(tiny_model, **options, **more) as server,
            client_of(server) as http,
        ):
            ask(http, [*SYSTEM, 1])
            assert message in refusal(http.post("/cache/pins", json={"prompt": SYSTEM}), 409)["message"]


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({}, "prompt", "give either prompt or messages"),
        ({"prompt": "a", "messages": [{"role": "user", "content": "a"}]}, "prompt", "give either prompt or messages"),
        ({"prompt": [[1]]}, "prompt", "prompt must be a string or a list of token ids"),
        ({"prompt": [True]}, "prompt", "prompt must be a string or a list of token ids"),
        ({"prompt": [-1]}, "prompt", "token ids must be integers from 0 to 4294967295"),
        ({"prompt": "a", "ttl": 5}, "ttl", "ttl is not known here"),
        ({"prompt": "a", "ttl_s": 0}, "ttl_s", "ttl_s must be greater than 0"),
        ({"prompt": "a", "ttl_s": "5"}, "ttl_s", "ttl_s must be a valid number"),
        ({"prompt": "a", "ttl_s": 1e9}, "ttl_s", "ttl_s must be less than or equal to 31622400"),
        ({"prompt": "a", "id": "a/b"}, "id", "id must match pattern"),
        ({"prompt": "a", "cache_salt": ""}, "cache_salt", "cache_salt must have at least 1 character"),
        ({"prompt": "a", "tenant": "key-1"}, "tenant", "tenant must be default"),
        ({"messages": []}, "messages", "messages must have at least 1 item"),
        ([], None, "the body must be a JSON object"),
    ],
)
def test_a_bad_pin_is_told_why(http: httpx.Client, body: Any, param: str | None, message: str) -> None:
    error = refusal(http.post("/cache/pins", json=body), 400)
    assert (error["param"], error["message"][: len(message)]) == (param, message)


def test_other_models_and_methods_are_refused(http: httpx.Client) -> None:
    assert refusal(http.post("/cache/pins", json={"prompt": "a", "model": "other"}), 404)["param"] == "model"
    assert refusal(http.put("/cache/pins"), 405)["code"] == "method_not_allowed"
    assert refusal(http.post("/cache/tree"), 405)["code"] == "method_not_allowed"


def test_the_tree_tells_what_is_cached(http: httpx.Client) -> None:
    ask(http, [*SYSTEM, *range(100, 132), 1])
    ask(http, [*SYSTEM, *range(200, 216), 1])
    http.post("/cache/pins", json={"prompt": SYSTEM})
    tree = http.get("/cache/tree").json()
    assert tree["is_complete"] is True
    shown = ("number", "parent", "tenant", "state", "num_blocks", "num_tokens", "num_holders", "num_hits", "age_blocks")
    assert [[node[name] for name in shown] for node in tree["nodes"]] == [
        [0, None, "default", "cached", 4, 64, 1, 1, 6],
        [1, 0, "default", "cached", 2, 32, 0, 0, 2],
        [2, 0, "default", "cached", 1, 16, 0, 0, 0],
    ]
    assert [node["begins_with"]["token_ids"][0] for node in tree["nodes"]] == [20, 100, 200]
    assert all(isinstance(node["begins_with"]["text"], str) for node in tree["nodes"])


def test_the_tree_can_be_cut_and_asked_for_a_tenant(http: httpx.Client) -> None:
    for salt in ("a secret", "b"):
        ask(http, [*SYSTEM, 1], cache_salt=salt)
    whole = http.get("/cache/tree")
    assert "secret" not in whole.text
    names = [node["tenant"] for node in whole.json()["nodes"]]
    assert len(set(names)) == 2
    assert http.get("/cache/tree", params={"limit": 1}).json() == {
        "nodes": whole.json()["nodes"][:1],
        "is_complete": False,
    }
    of_one = http.get("/cache/tree", params={"tenant": names[1]}).json()
    assert [node["tenant"] for node in of_one["nodes"]] == names[1:]
    unknown = refusal(http.get("/cache/tree", params={"tenant": "key-7"}), 404)
    assert unknown["message"].startswith("nothing of a tenant 'key-7' is in the cache")
    for limit in ("0", "-1", "2001", "ten", "9" * 5000):
        assert refusal(http.get("/cache/tree", params={"limit": limit}), 400)["param"] == "limit"


def test_tenants_are_named_without_their_keys(tiny_model: Path) -> None:
    settings = ServerSettings(served_model_names=(MODEL,), api_keys=("sk-one", "sk-two"), admin_key="admin")
    with serving(tiny_model, settings) as server, client_of(server) as http:
        two, admin = ({"Authorization": f"Bearer {key}"} for key in ("sk-two", "admin"))
        http.headers.update(two)
        ask(http, [*SYSTEM, 1])
        assert refusal(http.get("/cache/tree"), 401)["code"] == "invalid_api_key"
        assert refusal(http.post("/cache/pins", json={"prompt": SYSTEM, "tenant": "key-2"}), 401)
        http.headers.update(admin)
        assert [node["tenant"] for node in http.get("/cache/tree").json()["nodes"]] == ["key-2"]
        assert refusal(http.post("/cache/pins", json={"prompt": SYSTEM}), 400)["param"] == "tenant"
        assert refusal(http.post("/cache/pins", json={"prompt": SYSTEM, "tenant": "key-1"}), 409)
        pin = http.post("/cache/pins", json={"prompt": SYSTEM, "tenant": "key-2"}).json()
        assert (pin["tenant"], pin["num_tokens"]) == ("key-2", 64)

"""Long messages are remembered for the tenant that sent them, by every route that renders a chat."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from anaphora.server.settings import ServerSettings
from anaphora.tokenizer.tokenizer import Tokenizer
from anaphora.types import Namespace
from tests.patience import LOCAL
from tests.server.live import MODEL, client_of, serving
from tests.server.scripted_backend import ScriptedBackend

CHAT = {"messages": [{"role": "user", "content": "It was the best of times. " * 40}]}
KEYS = ("alice's key", "bob's key")


class Watched(Tokenizer):
    """Notes for whom it encodes."""

    owners: list[Namespace]

    def encode_rendered(self, text: str, owner: Namespace) -> Any:
        self.owners.append(owner)
        return super().encode_rendered(text, owner)


@pytest.fixture
def backend(tiny_model: Path) -> ScriptedBackend:
    tokenizer = Watched.from_folder(tiny_model)
    tokenizer.owners = []
    return ScriptedBackend(tokenizer, max_model_len=4096)


def post(url: str, body: dict[str, Any], key: str) -> Any:
    answer = httpx.post(url, json=body, headers={"Authorization": f"Bearer {key}"}, **LOCAL)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_each_tenant_has_memory_of_its_own(backend: ScriptedBackend) -> None:
    settings = ServerSettings(served_model_names=(MODEL,), api_keys=KEYS)
    with serving(backend=backend, settings=settings) as server:
        for key in KEYS:
            post(f"{server.url}/tokenize", CHAT, key)
            for salt in (None, "salt"):
                post(f"{server.url}/v1/chat/completions", {**CHAT, "cache_salt": salt}, key)
    assert isinstance(backend.tokenizer, Watched)
    by_tokenize, by_chat, by_salted = (backend.tokenizer.owners[first::3] for first in range(3))
    assert by_tokenize == by_chat
    assert len({*by_chat, *by_salted}) == 4
    assert [request.namespace for request in backend.requests] == [
        owner for pair in zip(by_chat, by_salted, strict=True) for owner in pair
    ]


def test_ids_from_memory_are_the_same_and_its_size_is_told(backend: ScriptedBackend) -> None:
    with serving(backend=backend) as server, client_of(server) as client:
        for _ in range(2):
            client.post("/v1/chat/completions", json=CHAT)
        [size] = [line for line in client.get("/metrics").text.splitlines() if line.startswith("anaphora:text_memory")]
        assert client.post("/tokenize", json=CHAT).json()["tokens"] == list(backend.requests[0].prompt_token_ids)
    assert float(size.rpartition(" ")[2]) == backend.tokenizer.num_remembered_bytes > 1000
    assert list(backend.requests[0].prompt_token_ids) == list(backend.requests[1].prompt_token_ids)


@pytest.mark.parametrize("name", ["self", "tokenizer", "owner", "request", "text", "variables"])
def test_a_template_variable_may_have_any_other_name(client: httpx.Client, name: str) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "chat_template_kwargs": {name: 1}}
    assert client.post("/v1/chat/completions", json=body).status_code == 200

"""Long texts are tokenised and put together as short ones are, and nobody else waits for them."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from anaphora.server.api import LONG_BODY_BYTES
from anaphora.tokenizer.tokenizer import Tokenizer
from tests.patience import LOCAL, PATIENCE_S
from tests.server.live import serving
from tests.server.scripted_backend import ScriptedBackend

NUM_PARTS = LONG_BODY_BYTES // 10
LONG_TEXT = "hi 你好 " * NUM_PARTS


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> Tokenizer:
    return Tokenizer.from_folder(tiny_model)


@pytest.mark.parametrize(
    ("path", "body", "slow"),
    [
        ("/tokenize", {"prompt": LONG_TEXT}, "encode"),
        ("/tokenize", {"prompt": LONG_TEXT, "return_token_strs": True}, "token_text"),
        ("/tokenize", {"messages": [{"role": "user", "content": LONG_TEXT}]}, "encode_rendered"),
        ("/detokenize", {"tokens": [300] * (LONG_BODY_BYTES // 4)}, "decode"),
        ("/v1/completions", {"prompt": LONG_TEXT}, "encode"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": LONG_TEXT}]}, "encode_rendered"),
    ],
)
def test_others_are_answered_while_a_long_text_is_worked_on(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any], slow: str
) -> None:
    has_begun, may_go_on = threading.Event(), threading.Event()
    real = getattr(tokenizer, slow)

    def wait_then_work(*args: Any, **kwargs: Any) -> Any:
        has_begun.set()
        assert may_go_on.wait(PATIENCE_S)
        return real(*args, **kwargs)

    monkeypatch.setattr(tokenizer, slow, wait_then_work)
    backend = ScriptedBackend(tokenizer, max_model_len=10**7)
    with serving(backend=backend) as server, ThreadPoolExecutor(1) as client:
        answer = client.submit(httpx.post, f"{server.url}{path}", json=body, **LOCAL)
        try:
            assert has_begun.wait(PATIENCE_S)
            assert httpx.get(f"{server.url}/health", **{**LOCAL, "timeout": PATIENCE_S / 2}).status_code == 200
            assert not answer.done()
        finally:
            may_go_on.set()
        assert answer.result().status_code == 200


def test_a_long_text_has_the_tokens_of_its_parts(tokenizer: Tokenizer) -> None:
    with serving(backend=ScriptedBackend(tokenizer)) as server:

        def tokenize(text: str) -> Any:
            body = {"prompt": text, "return_token_strs": True}
            return httpx.post(f"{server.url}/tokenize", json=body, **LOCAL).json()

        part, whole = tokenize("hi 你好 "), tokenize(LONG_TEXT)
        assert whole["count"] == len(whole["tokens"])
        assert whole["tokens"] == part["tokens"] * NUM_PARTS
        assert whole["token_strs"] == part["token_strs"] * NUM_PARTS

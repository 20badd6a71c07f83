"""The official client works unchanged, and every error reaches its user as the exception he expects."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from anaphora.errors import EngineDeadError, EngineOverloadedError, EngineStepError
from anaphora.server.settings import ServerSettings
from anaphora.tokenizer.tokenizer import Tokenizer
from tests.patience import PATIENCE_S
from tests.server.live import MODEL, LiveServer, serving
from tests.server.scripted_backend import ScriptedBackend


@pytest.fixture
def sdk(live: LiveServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="any", max_retries=0) as client:
        yield client


def test_chats(sdk: openai.OpenAI) -> None:
    messages: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]
    whole = sdk.chat.completions.create(model=MODEL, messages=messages, max_tokens=8, temperature=0)
    assert whole.usage is not None
    assert whole.usage.prompt_tokens_details is not None
    assert whole.usage.prompt_tokens_details.cached_tokens == 0
    stream = sdk.chat.completions.create(
        model=MODEL, messages=messages, max_tokens=8, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.prompt_tokens_details is not None
    assert chunks[-1].usage.prompt_tokens_details.cached_tokens == 16


def test_completions(sdk: openai.OpenAI) -> None:
    whole = sdk.completions.create(model=MODEL, prompt=[3, 4, 5], max_tokens=4, temperature=0, logprobs=1)
    assert whole.choices[0].logprobs is not None
    assert len(whole.choices[0].logprobs.token_logprobs or ()) == 4
    stream = sdk.completions.create(model=MODEL, prompt=[3, 4, 5], max_tokens=4, temperature=0, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == whole.choices[0].text
    salted = sdk.completions.create(model=MODEL, prompt="x" * 40, max_tokens=1, extra_body={"cache_salt": "s"})
    assert salted.usage is not None


def test_models(sdk: openai.OpenAI) -> None:
    assert [model.id for model in sdk.models.list()] == ["demo-model", "second-name"]
    assert sdk.models.retrieve(MODEL).owned_by == "anaphora"


def test_the_asynchronous_client(live: LiveServer) -> None:
    async def ask(client: openai.AsyncOpenAI, number: int) -> str:
        stream = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": f"question {number}"}], max_tokens=6, stream=True, seed=1
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def main() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{live.url}/v1", api_key="any") as client:
            return await asyncio.gather(*(ask(client, number % 4) for number in range(12)))

    texts = asyncio.run(main())
    assert texts[:4] == texts[4:8] == texts[8:]


def test_mistakes_have_the_clients_own_exceptions(sdk: openai.OpenAI, tiny_model: Path) -> None:
    with pytest.raises(openai.NotFoundError, match="no-such-model") as missing:
        sdk.completions.create(model="no-such-model", prompt="hi")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="512 tokens") as too_long:
        sdk.completions.create(model=MODEL, prompt=[7] * 600)
    assert too_long.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as wrong:
        sdk.completions.create(model=MODEL, prompt="hi", temperature=9)
    assert wrong.value.param == "temperature"
    settings = ServerSettings(served_model_names=(MODEL,), api_keys=("right",))
    backend = ScriptedBackend(Tokenizer.from_folder(tiny_model))
    with serving(backend=backend, settings=settings) as server:
        for key, is_right in (("right", True), ("wrong", False)):
            with openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) as client:
                if is_right:
                    assert client.completions.create(model=MODEL, prompt="hi").choices[0].text == "Hello there"
                else:
                    with pytest.raises(openai.AuthenticationError):
                        client.completions.create(model=MODEL, prompt="hi")


def test_failures_have_the_clients_own_exceptions(tiny_model: Path) -> None:
    backend = ScriptedBackend(Tokenizer.from_folder(tiny_model))
    with serving(backend=backend) as server:
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client:
            backend.refusal = EngineOverloadedError("full")
            with pytest.raises(openai.InternalServerError, match="full") as overloaded:
                client.completions.create(model=MODEL, prompt="hi", stream=True)
            assert overloaded.value.status_code == 503
            assert overloaded.value.response.headers["retry-after"] == "1"
            backend.refusal = None
            backend.script = ["Hello", EngineStepError("the model failed")]
            with pytest.raises(openai.APIError, match="the model failed"):
                list(client.completions.create(model=MODEL, prompt="hi", stream=True))
            with pytest.raises(openai.InternalServerError, match="the model failed"):
                client.completions.create(model=MODEL, prompt="hi")
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=1) as patient:
            backend.refusal = EngineDeadError("the engine has stopped")
            asked = len(backend.requests)
            with pytest.raises(openai.InternalServerError, match="stopped"):
                patient.completions.create(model=MODEL, prompt="hi", timeout=PATIENCE_S)
            assert len(backend.requests) == asked + 2  # 503 is retried by the client

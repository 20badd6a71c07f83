from pathlib import Path
from typing import Any

import pytest

import anaphora
from anaphora import LLM, SamplingParams
from anaphora.errors import (
    CheckpointError,
    ConfigError,
    EngineDeadError,
    EngineStepError,
    RequestError,
)

GREEDY = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
TEXT = "You are a helpful assistant. What is the capital of France?"


@pytest.fixture
def llm(tiny_folders: dict[str, Path]) -> LLM:
    return LLM(str(tiny_folders["llama3"]), device="cpu", kv_cache_memory_bytes=2**20, num_threads=1)


def test_texts_and_ids_come_back_in_order_with_their_ledgers(llm: LLM) -> None:
    ids = llm.tokenizer.encode(TEXT)
    prompts: list[Any] = [TEXT, ids, "Never"]
    first, second, third = llm.generate(prompts, GREEDY)
    assert first.prompt_token_ids == tuple(ids)
    assert first.token_ids == second.token_ids != third.token_ids
    assert first.text == llm.tokenizer.decode(first.token_ids)
    assert (first.finish_reason, len(first.token_ids)) == ("length", 6)
    assert (first.num_cached_tokens, second.num_cached_tokens) == (0, 16)
    assert sum(second.ledger.counts.values()) == len(ids) == second.usage.num_prompt_tokens
    assert first.logprobs is first.prompt_logprobs is None


def test_a_single_prompt_is_a_list_of_one(llm: LLM) -> None:
    by_text, by_ids = llm.generate(TEXT, GREEDY), llm.generate(llm.tokenizer.encode(TEXT), GREEDY)
    assert [r.token_ids for r in by_text] == [r.token_ids for r in by_ids]
    assert by_ids[0].num_cached_tokens == 16
    assert llm.generate([], GREEDY) == []


def test_each_prompt_may_have_its_own_params(llm: LLM) -> None:
    short = SamplingParams(temperature=0, max_tokens=2, logprobs=1, prompt_logprobs=0)
    first, second = llm.generate([TEXT, TEXT], [short, GREEDY])
    assert (len(first.token_ids), len(second.token_ids)) == (2, 6)
    assert first.logprobs is not None
    assert [entry.token.token_id for entry in first.logprobs] == list(first.token_ids)
    assert first.prompt_logprobs is not None
    assert len(first.prompt_logprobs) == len(first.prompt_token_ids)
    with pytest.raises(RequestError, match="2 prompts need as many params, got 1"):
        llm.generate([TEXT, TEXT], [short])


def test_a_stop_string_ends_early_and_frees(llm: LLM) -> None:
    whole = llm.generate(TEXT, SamplingParams(temperature=0, max_tokens=40, ignore_eos=True))[0]
    stop = whole.text[8:11]
    params = SamplingParams(temperature=0, max_tokens=40, ignore_eos=True, stop=(stop,))
    (result,) = llm.generate(TEXT, params)
    assert result.text == whole.text[: whole.text.index(stop)]
    assert (result.finish_reason, result.stop_reason) == ("stop", stop)
    assert llm.stats().num_free_blocks == llm.stats().num_blocks


def test_chats_go_through_the_template(llm: LLM) -> None:
    hello = [{"role": "user", "content": "hello"}]
    (one,) = llm.chat(hello, GREEDY)
    assert one.prompt_token_ids == tuple(llm.tokenizer.encode_chat(hello))
    two = llm.chat([hello, [{"role": "system", "content": TEXT}, *hello]], GREEDY)
    assert two[0].token_ids == one.token_ids
    assert [len(r.token_ids) for r in two] == [6, 6]


def test_namespaces_share_nothing_and_a_reset_forgets(llm: LLM) -> None:
    llm.generate(TEXT, GREEDY, namespace="one")
    assert llm.generate(TEXT, GREEDY, namespace="two")[0].num_cached_tokens == 0
    assert llm.generate(TEXT, GREEDY, namespace="one")[0].num_cached_tokens == 16
    assert llm.reset_prefix_cache()
    assert llm.generate(TEXT, GREEDY, namespace="one")[0].num_cached_tokens == 0


def test_one_bad_prompt_and_none_has_run(llm: LLM) -> None:
    prompts: list[Any] = [TEXT, ()]
    with pytest.raises(RequestError, match="at least one token"):
        llm.generate(prompts, GREEDY)
    stats = llm.stats()
    assert (stats.num_waiting, stats.num_running, stats.num_prompt_tokens) == (0, 0, 0)


def test_a_failing_model_leaves_nothing_behind(llm: LLM, caplog: pytest.LogCaptureFixture) -> None:
    core: Any = llm._core
    begin, core.runner.begin = core.runner.begin, fail
    with pytest.raises(EngineStepError):
        llm.generate([TEXT, "Never"], GREEDY)
    core.runner.begin = begin
    assert len(llm.generate(TEXT, GREEDY)[0].token_ids) == 6
    assert llm.stats().num_running == llm.stats().num_waiting == 0


def test_an_interrupted_step_leaves_nothing_behind(llm: LLM) -> None:
    core: Any = llm._core
    begin, core.runner.begin = core.runner.begin, interrupt
    with pytest.raises(KeyboardInterrupt):
        llm.generate([TEXT, "Never"], GREEDY)
    core.runner.begin = begin
    assert len(llm.generate(TEXT, GREEDY)[0].token_ids) == 6
    core.scheduler.check_integrity()


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def fail(*_: Any, **__: Any) -> None:
    raise RuntimeError("out of luck")


def test_a_closed_one_says_so(tiny_folders: dict[str, Path]) -> None:
    with LLM(str(tiny_folders["llama3"]), device="cpu", kv_cache_memory_bytes=2**20) as llm:
        llm.generate("x", GREEDY)
    with pytest.raises(EngineDeadError, match="was closed"):
        llm.generate("x", GREEDY)


def test_dummy_weights_need_no_weight_file(tiny_folders: dict[str, Path]) -> None:
    with LLM(str(tiny_folders["llama3"]), load_format="dummy", num_gpu_blocks_override=9) as llm:
        assert llm.max_model_len == 144
        assert len(llm.generate("x", GREEDY)[0].token_ids) == 6


def test_options_and_models_that_cannot_be_are_refused(tiny_folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="max_model_len is 600, but the model's context is 512"):
        LLM(str(tiny_folders["llama3"]), max_model_len=600)
    with pytest.raises(ConfigError, match=r"no memory for a KV cache of .*: lower kv_cache_memory_bytes"):
        LLM(str(tiny_folders["llama3"]), num_gpu_blocks_override=10**13)
    with pytest.raises(CheckpointError):
        LLM(str(tmp_path / "nowhere"))


def test_public_names() -> None:
    assert anaphora.LLM is LLM
    for name in anaphora.engine.__all__:
        assert getattr(anaphora.engine, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        anaphora.engine.nothing  # noqa: B018

"""Hit rates by both rules against figures that were published or worked out by hand (cases 15 and 16)."""

import json
import os
from array import array
from dataclasses import replace
from pathlib import Path

import pytest

from anaphora.errors import TraceError
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.ledger import Reason
from anaphora.kvcache.prompt_memory import PromptMemory
from anaphora.sim.cache_replay import CacheReplay
from anaphora.sim.prompt_blocks import PromptBlocks, cut_into_blocks
from anaphora.sim.sweep import RunPlan, SimulatedRun, Sweep
from anaphora.traces.reader import read_trace
from anaphora.traces.request import TextPrompt, TokenPrompt, Trace, TraceRequest
from anaphora.types import Namespace, RequestId

DATA = Path(__file__).parents[1] / "data"
CASES = DATA / "cases"


def token_trace(*prompts: list[int]) -> Trace:
    requests = [
        TraceRequest(line=i, arrival_s=None, prompt=TokenPrompt(array("I", ids))) for i, ids in enumerate(prompts)
    ]
    return Trace(Path("made"), "token-ids", None, len(requests), tuple(requests), ())


def run(prompts: list[PromptBlocks], policy: str = "lru", num_blocks: int | None = None) -> SimulatedRun:
    return Sweep(prompts).run(RunPlan(policy, num_blocks), lambda num_done: None)


def rates(run: SimulatedRun) -> list[float]:
    values = run.to_json()
    names = ("token_hit_rate", "trace_rule_token_hit_rate", "trace_rule_block_hit_rate")
    return [round(100 * values[name], 2) for name in names]


@pytest.mark.parametrize("capacity", ["infinite", "8", "6", "4", "3"])
def test_case_16(capacity: str) -> None:
    folder = CASES / "16-simulator-lru-small"
    expected = json.loads((folder / "expected.json").read_text())[capacity]["tail_evicted_first"]
    prompts = cut_into_blocks(read_trace(folder / "trace.jsonl"))
    num_blocks = 100 if capacity == "infinite" else int(capacity)
    replay = CacheReplay(CacheConfig(num_blocks=num_blocks, block_size=1))
    assert [replay.ask_by_trace_rule(prompt) for prompt in prompts] == expected
    replay.manager.check_integrity()


def test_case_16_by_the_engines_rule() -> None:
    prompts = cut_into_blocks(read_trace(CASES / "16-simulator-lru-small" / "trace.jsonl"))
    replay = CacheReplay(CacheConfig(num_blocks=100, block_size=512))
    assert [replay.ask(prompt).num_cached_tokens // 512 for prompt in prompts] == [0, 0, 2, 2, 2, 0, 3]


def test_a_prompt_longer_than_the_cache_leaves_its_beginning() -> None:
    prompts = cut_into_blocks(read_trace(CASES / "16-simulator-lru-small" / "trace.jsonl"))
    replay = CacheReplay(CacheConfig(num_blocks=3, block_size=512))
    longest, first = prompts[-1], prompts[0]
    assert [replay.ask(prompt).num_cached_tokens // 512 for prompt in (longest, longest, first)] == [0, 3, 2]
    assert run(prompts, num_blocks=3).to_json()["oversized_requests"] == 1


def test_case_15() -> None:
    expected = json.loads((CASES / "15-trace-dirty-mooncake" / "expected.json").read_text())
    expected = expected["infinite_cache"]["without_line_5"]
    values = run(cut_into_blocks(read_trace(CASES / "15-trace-dirty-mooncake" / "trace.jsonl"))).to_json()
    assert values["trace_rule_cached_blocks"] == expected["hit_blocks"]
    assert values["prompt_blocks"] == expected["blocks"]
    assert values["trace_rule_cached_tokens"] == expected["hit_tokens"]
    assert values["prompt_tokens"] == expected["tokens"]
    assert values["capacity_blocks"] is None


def test_an_identical_prompt_computes_its_last_block() -> None:
    prompts = cut_into_blocks(token_trace([*range(160)], [*range(160)]))
    result = run(prompts)
    assert result.engine.num_cached_tokens == 144
    assert result.trace_rule.num_hit_tokens == 160
    assert result.engine.num_tokens_by_reason == {Reason.NEW: 160, Reason.REUSED_DEVICE: 144, Reason.LAST_TOKEN: 16}


def test_a_prompts_beginning_outlives_its_end() -> None:
    first, other = [*range(160)], [*range(1000, 1064)]
    result = run(cut_into_blocks(token_trace(first, other, first)), num_blocks=12)
    assert result.engine.num_cached_tokens == 128
    assert result.engine.num_tokens_by_reason[Reason.EVICTED] == 32


def test_policies_learn_how_long_the_answers_were(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = token_trace([1] * 40, [2] * 40)
    requests = (trace.requests[0]._replace(num_output_tokens=7), trace.requests[1])
    replay = CacheReplay(CacheConfig(num_blocks=8))
    told: list[int | None] = []
    free = replay.manager.free

    def listening(request_id: RequestId, *, num_answer_tokens: int | None = None) -> None:
        told.append(num_answer_tokens)
        free(request_id, num_answer_tokens=num_answer_tokens)

    monkeypatch.setattr(replay.manager, "free", listening)
    for prompt in cut_into_blocks(replace(trace, requests=requests)):
        replay.ask(prompt)
        replay.ask_by_trace_rule(prompt)
    assert told == [7, 7, None, None]  # by either rule; a trace may not say it


def test_no_block_is_lost_on_the_way() -> None:
    replay = CacheReplay(CacheConfig(num_blocks=6, block_size=4))
    prompts = [[*range(start, start + length)] for start in (0, 100, 0, 200, 100) for length in (3, 8, 13, 16, 40)]
    for prompt in cut_into_blocks(token_trace(*prompts), 4):
        replay.ask(prompt)
        replay.manager.check_integrity()


def test_the_bound_keeps_what_comes_back() -> None:
    a, b, c = ([*range(base, base + 33)] for base in (0, 100, 200))
    trace = token_trace(a, b, c, a, c, a)
    lru, belady = (run(cut_into_blocks(trace), policy, 5) for policy in ("lru", "belady"))
    assert lru.engine.num_cached_tokens < belady.engine.num_cached_tokens == 3 * 32
    assert lru.to_json()["ledger"].keys() == belady.to_json()["ledger"].keys()


@pytest.mark.parametrize("num_blocks", [40, 300, 1000])
def test_no_cache_beats_the_bound_nor_the_unbounded_one(num_blocks: int) -> None:
    prompts = cut_into_blocks(read_trace(DATA / "traces" / "mooncake_conversation_300.jsonl.gz"))
    lru, belady = (run(prompts, policy, num_blocks) for policy in ("lru", "belady"))
    unbounded = run(prompts)
    assert lru.engine.num_cached_tokens <= belady.engine.num_cached_tokens <= unbounded.engine.num_cached_tokens
    assert lru.trace_rule.num_hit_blocks <= belady.trace_rule.num_hit_blocks <= unbounded.trace_rule.num_hit_blocks


def test_larger_blocks_of_a_hashed_trace_are_groups_of_its_own() -> None:
    trace = read_trace(DATA / "traces" / "mooncake_conversation_300.jsonl.gz")
    own, double = cut_into_blocks(trace), cut_into_blocks(trace, 1024)
    assert [len(prompt.blocks) for prompt in double] == [-(-len(prompt.blocks) // 2) for prompt in own]
    for one, other in zip(own, double, strict=True):
        assert other.blocks[: other.num_full_blocks] == one.blocks[1::2][: other.num_full_blocks]
    assert rates(run(double))[0] <= rates(run(own))[0]
    with pytest.raises(TraceError, match="--block-size must be a multiple"):
        cut_into_blocks(trace, 256)


def test_texts_need_a_model() -> None:
    request = TraceRequest(line=1, arrival_s=None, prompt=TextPrompt("hello"))
    with pytest.raises(TraceError, match="--model"):
        cut_into_blocks(Trace(Path("made"), "openai", None, 1, (request,), ()))


def test_processes_give_what_one_process_gives() -> None:
    prompts = cut_into_blocks(read_trace(CASES / "16-simulator-lru-small" / "trace.jsonl"))
    plans = [RunPlan(policy, num_blocks) for policy in ("lru", "belady") for num_blocks in (3, None)]
    done: list[int] = []
    alone, spread = (Sweep(prompts).run_all(plans, done.append, num_jobs=n) for n in (1, 2))
    assert [one.to_json() for one in alone] == [other.to_json() for other in spread]
    assert sum(done) == 2 * 2 * len(prompts) * len(plans)


@pytest.mark.soak
def test_published_figures_of_whole_traces() -> None:
    """``ANAPHORA_TRACES`` names a folder with the two traces of which the slices in ``tests/data`` were cut."""
    folder = Path(os.environ.get("ANAPHORA_TRACES", ""))
    if not (folder / "mooncake_conversation.jsonl.gz").exists():
        pytest.skip("ANAPHORA_TRACES names no folder with the whole traces")
    conversation = cut_into_blocks(read_trace(folder / "mooncake_conversation.jsonl.gz"))
    assert rates(run(conversation)) == [37.34, 37.36, 36.64]
    sessions = cut_into_blocks(read_trace(folder / "claude_code_sessions.jsonl.gz"))
    assert rates(run(sessions))[1] == pytest.approx(95.3, abs=0.05)


def test_hashed_prompts_are_remembered_as_blocks_and_tails_by_their_lengths() -> None:
    texts = [
        PromptBlocks(Namespace(""), array("I", [7, 9]).tobytes(), num_tokens, 16, True, None, None).for_engine()
        for num_tokens in (17, 18, 31)
    ]
    remembered = [text.to_bytes() for text in texts]
    assert remembered == sorted(set(remembered)), "tails of other lengths are other prompts, the shorter ones first"
    memory = PromptMemory(8)
    memory.remember(remembered[0], RequestId("a"))
    nearest = memory.nearest(remembered[2])
    assert nearest is not None
    assert (nearest.num_common_units, nearest.num_units, texts[0].tokens_per_unit) == (1, 1, 16)

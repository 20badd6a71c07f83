"""The third witness of a load: predicted to the token, or not predicted with the reason."""

import asyncio
import json
from collections.abc import Sequence

import pytest

from anaphora.lab.arms import Mechanism
from anaphora.lab.load import prediction
from anaphora.lab.load.prediction import Predictor
from anaphora.lab.load.records import LoadRecord, LoadRun, Stage, StagePrediction
from anaphora.lab.load.results import results_of
from anaphora.lab.load.steady import steady_stages
from anaphora.lab.load.witnesses import STILL_COMPUTED, witnesses_of
from anaphora.lab.load.workloads import Asking, ChatWorkload
from anaphora.lab.targets.base import Message, Tool
from tests.lab.fakes import FakeServing, FakeTarget
from tests.lab.load.records import MS, header, load_record, stage, window
from tests.lab.load.test_load_language import closed_run
from tests.lab.test_language import PRICES

CACHE = {"block_size": "16", "num_gpu_blocks": "4096"}


def workload(stage: Stage, mechanism: Mechanism = Mechanism.SALT) -> ChatWorkload:
    asking = Asking(model="m", seed="s", mechanism=mechanism, must_miss=stage.arm == "off", ignores_eos=True)
    return ChatWorkload(
        asking=asking,
        lang="en",
        num_prefixes=2,
        num_prefix_units=60,
        num_unique_words=8,
        words=(" one", " two", " three", " four"),
        output_tokens=2,
    )


def served(serving: FakeServing, stage: Stage, made: ChatWorkload, num: int = 6) -> list[LoadRecord]:
    """What the fake answers when it is asked one request after another, in another order than by number."""
    records = []
    for place, number in enumerate([3, 0, 1, 2, 5, 4][:num]):
        body = json.loads(made.body(number))
        prompt, cached = serving.serve(body["messages"], body.get("cache_salt"))
        usage = serving.usage(prompt, 2, cached)
        records.append(load_record(stage=stage.number, number=number, due_ms=40.0 * place, num_events=2, usage=usage))
    return records[::-1]


def predicted(
    stages: Sequence[Stage], serving: FakeServing, mechanism: Mechanism, cache: dict[str, str]
) -> list[tuple[StagePrediction, list[LoadRecord]]]:
    predictor = Predictor(FakeTarget(serving), mechanism, cache)
    found = []
    for one in stages:
        made = workload(one, mechanism)
        records = served(serving, one, made)
        found.append((asyncio.run(predictor.predict(one, made, records)), records))
    return found


@pytest.mark.parametrize("mechanism", [Mechanism.SALT, Mechanism.NONCE])
@pytest.mark.parametrize("cache", [CACHE, {"block_size": "16"}, {}])
def test_what_is_predicted_is_what_an_exact_cache_serves(mechanism: Mechanism, cache: dict[str, str]) -> None:
    for made, records in predicted([stage(), stage(number=1, arm="off")], FakeServing(), mechanism, cache):
        assert made.reason is None
        by_number = dict(zip(made.numbers, zip(made.prompt_tokens, made.cached_tokens, strict=True), strict=True))
        for record in records:
            usage = record.usage or {}
            expected = (usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"])
            assert by_number[record.number] == expected
        assert (sum(made.cached_tokens) > 0) is (made.stage == 0)


def test_a_cache_that_is_too_small_is_predicted_to_evict() -> None:
    small = {**CACHE, "num_gpu_blocks": "9"}
    ((made, _),) = predicted([stage()], FakeServing(), Mechanism.SALT, small)
    assert sum(made.cached_tokens) < sum(predicted([stage()], FakeServing(), Mechanism.SALT, CACHE)[0][0].cached_tokens)
    ((none, _),) = predicted([stage()], FakeServing(), Mechanism.SALT, {**CACHE, "num_gpu_blocks": "2"})
    assert "does not fit the cache" in (none.reason or "")


class Mute(FakeTarget):
    """Never asked."""

    async def chat_token_ids(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int] | None:
        raise AssertionError("nothing is to be tokenised")


def test_a_server_without_a_cache_is_predicted_to_serve_nothing_whatever_is_asked() -> None:
    off = stage(arm="off")
    predictor = Predictor(Mute(FakeServing()), Mechanism.FLAG, CACHE)
    made = asyncio.run(predictor.predict(off, workload(off, Mechanism.FLAG), [load_record(number=5)]))
    assert (made.numbers, made.cached_tokens, made.prompt_tokens, made.reason) == ((5,), (0,), (), None)


def test_what_cannot_be_predicted_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    serving = FakeServing(has_tokenizer=False)
    assert "--tokenizer" in (predicted([stage()], serving, Mechanism.SALT, CACHE)[0][0].reason or "")
    assert "own times" in (predicted([stage(loop="open")], FakeServing(), Mechanism.SALT, CACHE)[0][0].reason or "")
    monkeypatch.setattr(prediction, "MOST_PROMPTS", 5)
    assert "its 6 prompts are more than the 5" in (
        predicted([stage()], FakeServing(), Mechanism.SALT, CACHE)[0][0].reason or ""
    )


def test_slots_under_load_are_not_predicted() -> None:
    """llama.cpp: which slot a prompt takes depends on which are busy."""
    ((found, _),) = predicted([stage()], FakeServing(), Mechanism.NONCE, {"num_slots": "4"})
    assert found.reason == "prompts are kept in slots: what one finds depends on those that run beside it"


def test_a_request_sent_while_its_beginning_was_computed_is_told_apart_from_an_eviction() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 0}}
    records = tuple(
        load_record(number=n, due_ms=due, ttft_ms=50.0, num_events=2, usage=usage)
        for n, due in enumerate((0.0, 20.0, 80.0))
    )
    made = StagePrediction(
        stage=0, reason=None, block_size=16, numbers=(0, 1, 2), prompt_tokens=(100,) * 3, cached_tokens=(0, 80, 80)
    )
    one = stage(level=0.1)
    run = LoadRun(header(one), records, (window(0.0, 0.2),), (), (made,))
    (row,) = witnesses_of(run, steady_stages((one,), run.windows, records, ()))
    assert row["gaps"] == {STILL_COMPUTED: 1, "less than predicted: evicted, reset, or another replica": 1}
    assert row["usage"] == (0, 300)
    assert row["predicted"] == (160, 300)
    assert records[0].sent_ns + records[0].token_offsets_ns[0] == 50 * MS


def test_the_bill_is_that_of_each_levels_requests_and_of_the_whole_run() -> None:
    run = closed_run()
    money = results_of(run)["money"]
    first = money["rows"][0]
    assert (first["experiment"], first["prompt_tokens"], first["cached_tokens"]) == ("concurrency 1", 100, 80)
    per_request = (20 * PRICES["input"] + 80 * PRICES["cached"] + 4 * PRICES["output"]) / 1e6  # type: ignore[operator]
    assert first["with_cache_per_1000"] == pytest.approx(1000 * per_request)
    assert money["whole_run"]["num_told"] == len(run.requests)
    check = {one["name"]: one for one in results_of(run)["trust"]}["hits as predicted"]
    assert (check["status"], check["seen"]) == ("ok", "to the token, in every answered request: 28,800 cached tokens")

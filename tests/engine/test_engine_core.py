import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.engine.engine_core import MAX_FAILED_STEPS, EngineCore
from anaphora.engine.sampling_params import SamplingParams
from anaphora.errors import EngineDeadError, EngineStepError, PromptTooLongError, RequestError, StepMemoryError
from anaphora.kvcache.ledger import Reason
from anaphora.models.batch import ForwardBatch
from anaphora.types import Namespace, RequestId
from tests.engine.harness import GREEDY, continuation, finish, memory_core, next_token, request, tokens

if TYPE_CHECKING:
    from anaphora.engine.core_output import CoreOutput

PROMPT = tuple(range(10, 19))


def is_empty(core: EngineCore) -> bool:
    """Whether no request is left and no block is held."""
    stats = core.stats()
    return (stats.num_running, stats.num_waiting, stats.num_free_blocks) == (0, 0, stats.num_blocks)


def test_a_prompt_is_continued_to_the_limit() -> None:
    core, _ = memory_core()
    outputs = finish(core, [request("a", PROMPT)])["a"]
    assert tokens({"a": outputs})["a"] == continuation(PROMPT, 8)
    assert [o.finish_reason for o in outputs] == [None] * 7 + ["length"]
    assert [o.is_last for o in outputs] == [False] * 7 + [True]
    assert is_empty(core)


def test_nothing_to_do_is_none() -> None:
    core, _ = memory_core()
    assert core.step() is None


def test_a_hit_computes_what_is_missing_and_says_the_same() -> None:
    core, model = memory_core()
    cold = finish(core, [request("cold", PROMPT)])["cold"]
    model.batches.clear()
    hit = finish(core, [request("hit", PROMPT)])["hit"]
    assert tokens({"a": hit}) == tokens({"a": cold})
    assert [span.query_len for span in model.batches[0].spans] == [1]
    assert hit[0].ledger is not None
    assert hit[0].ledger.counts == {Reason.REUSED_DEVICE: 8, Reason.TAIL: 1}


def test_two_requests_in_a_step_compute_a_common_prefix_once() -> None:
    core, model = memory_core()
    outputs = finish(core, [request("a", PROMPT), request("b", (*PROMPT, 50))])
    assert tokens(outputs) == {"a": continuation(PROMPT, 8), "b": continuation((*PROMPT, 50), 8)}
    assert [span.query_len for span in model.batches[0].spans] == [9, 2]


@pytest.mark.parametrize("budget", [1, 3, 4, 5, 64])
def test_chunks_change_nothing(budget: int) -> None:
    core, _ = memory_core(max_num_batched_tokens=budget)
    prompts = {str(n): tuple(random.Random(n).choices(range(97), k=n)) for n in (1, 4, 5, 16, 21)}
    outputs = finish(core, [request(name, prompt) for name, prompt in prompts.items()])
    assert tokens(outputs) == {name: continuation(prompt, 8) for name, prompt in prompts.items()}


def test_preemption_changes_nothing_and_is_no_hit() -> None:
    """Four requests that grow to six blocks each do not fit into ten."""
    core, _ = memory_core(num_blocks=10)
    params = SamplingParams(temperature=0, max_tokens=13)
    prompts = {str(n): tuple(range(n, n + 11)) for n in range(0, 80, 20)}
    outputs = finish(core, [request(name, prompt, params) for name, prompt in prompts.items()])
    assert tokens(outputs) == {name: continuation(prompt, 13) for name, prompt in prompts.items()}
    stats = core.stats()
    assert stats.num_preemptions > 0
    assert stats.num_cached_tokens == 0
    assert stats.num_recomputed_tokens == sum(of_one[-1].num_recomputed_tokens for of_one in outputs.values()) > 0
    assert is_empty(core)


def test_zero_tokens_compute_the_prompt_and_nothing_else() -> None:
    core, model = memory_core()
    (output,) = finish(core, [request("a", PROMPT, SamplingParams(max_tokens=0))])["a"]
    assert (output.token_id, output.finish_reason, output.ledger is not None) == (None, "length", True)
    assert [batch.logits_rows.tolist() for batch in model.batches] == [[]]
    (hit,) = finish(core, [request("b", PROMPT, SamplingParams(max_tokens=0))])["b"]
    assert hit.ledger is not None
    assert hit.ledger.num_cached_tokens == 8


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_the_end_of_sequence_ends_unless_ignored(ignore_eos: bool) -> None:
    said = continuation(PROMPT, 8)
    core, _ = memory_core(eos_token_ids=(said[3],))
    outputs = finish(core, [request("a", PROMPT, SamplingParams(temperature=0, max_tokens=8, ignore_eos=ignore_eos))])
    assert tokens(outputs)["a"] == (said if ignore_eos else said[:4])
    last = outputs["a"][-1]
    assert (last.finish_reason, last.stop_reason) == (("length" if ignore_eos else "stop"), None)


def test_a_stop_token_ends_and_is_named() -> None:
    said = continuation(PROMPT, 8)
    core, _ = memory_core()
    params = SamplingParams(temperature=0, max_tokens=8, stop_token_ids=(said[2],))
    last = finish(core, [request("a", PROMPT, params)])["a"][-1]
    assert (last.token_id, last.finish_reason, last.stop_reason) == (said[2], "stop", said[2])


def test_min_tokens_keep_the_ends_away() -> None:
    said = continuation(PROMPT, 8)
    core, _ = memory_core(eos_token_ids=(said[0],))
    params = SamplingParams(temperature=0, max_tokens=8, min_tokens=5, stop_token_ids=(said[1],))
    generated = tokens(finish(core, [request("a", PROMPT, params)]))["a"]
    assert len(generated) >= 5
    assert not {said[0], said[1]} & set(generated[:5])


def test_prompt_logprobs_pass_the_cache_by_on_reading_and_come_once() -> None:
    params = SamplingParams(temperature=0, max_tokens=2, prompt_logprobs=1, logprobs=1)
    core, model = memory_core(max_num_batched_tokens=5, max_logits_rows=2)
    finish(core, [request("warm", PROMPT)])
    model.batches.clear()
    first, last = finish(core, [request("a", PROMPT, params)])["a"]
    assert first.ledger is not None
    assert first.ledger.counts == {Reason.BYPASSED: 9}
    assert [(batch.positions.tolist(), batch.logits_rows.tolist()) for batch in model.batches] == [
        ([0, 1], [0, 1]),
        ([2, 3], [0, 1]),
        ([4], [0]),
        ([5, 6], [0, 1]),
        ([7, 8], [0, 1]),
        ([9], [0]),
    ]
    assert first.prompt_logprobs is not None
    assert first.prompt_logprobs[0] is None
    for position, entry in enumerate(first.prompt_logprobs[1:], 1):
        assert entry is not None
        assert entry.token.token_id == PROMPT[position]
        assert entry.top[0].token_id == next_token(PROMPT[:position])
    assert first.logprobs is not None
    assert first.logprobs.token.token_id == first.token_id
    assert last.prompt_logprobs is None


def test_prompt_logprobs_survive_preemption() -> None:
    core, _ = memory_core(num_blocks=10, max_num_batched_tokens=7)
    params = SamplingParams(temperature=0, max_tokens=13, prompt_logprobs=0)
    prompts = {str(n): tuple(range(n, n + 11)) for n in range(0, 80, 20)}
    outputs = finish(core, [request(name, prompt, params) for name, prompt in prompts.items()])
    assert core.stats().num_preemptions > 0
    for name, prompt in prompts.items():
        (found,) = [o.prompt_logprobs for o in outputs[name] if o.prompt_logprobs is not None]
        assert [entry and entry.token.token_id for entry in found] == [None, *prompt[1:]]


def test_a_request_may_pass_the_cache_by() -> None:
    core, _ = memory_core()
    finish(core, [request("warm", PROMPT)])
    outputs = finish(core, [request("a", PROMPT, lookup=False)])["a"]
    assert outputs[0].ledger is not None
    assert outputs[0].ledger.counts == {Reason.BYPASSED: 9}
    assert core.stats().num_queried_tokens == 9


def test_namespaces_share_nothing() -> None:
    core, _ = memory_core()
    finish(core, [request("a", PROMPT, namespace="one")])
    outputs = finish(core, [request("b", PROMPT, namespace="two"), request("c", PROMPT, namespace="one")])
    assert [outputs[name][0].ledger.num_cached_tokens for name in "bc"] == [0, 8]  # type: ignore[union-attr]


@pytest.mark.parametrize("params", [{"temperature": 1.3}, {"top_p": 0.8}, {"top_k": 9, "min_p": 0.01}])
def test_a_seed_gives_the_same_tokens_whatever_else_is_in_the_batch(params: dict[str, Any]) -> None:
    seeded = SamplingParams(max_tokens=12, seed=11, logit_bias=FLAT, **params)
    alone = tokens(finish(memory_core()[0], [request("a", PROMPT, seeded)]))["a"]
    core, _ = memory_core(num_blocks=12, max_num_batched_tokens=7, seed=99)
    others = [request(str(n), range(n, n + 9), SamplingParams(max_tokens=20)) for n in range(3)]
    crowded = tokens(finish(core, [*others[:2], request("a", PROMPT, seeded), others[2]]))
    assert core.stats().num_preemptions > 0
    assert crowded["a"] == alone
    again = tokens(finish(core, [request("b", PROMPT, seeded)]))["b"]
    assert again == alone


FLAT = tuple((token_id, 0.05 * token_id) for token_id in range(97))
"""Makes the memory model's one-hot answers a little less certain, and unequal."""


def test_requests_without_a_seed_differ_from_each_other_and_repeat_with_the_engine() -> None:
    params = SamplingParams(max_tokens=12, logit_bias=FLAT, temperature=2.0)
    first = tokens(finish(memory_core()[0], [request(name, PROMPT, params) for name in "ab"]))
    second = tokens(finish(memory_core()[0], [request(name, PROMPT, params) for name in "ab"]))
    other_seed = tokens(finish(memory_core(seed=1)[0], [request(name, PROMPT, params) for name in "ab"]))
    assert first["a"] != first["b"]
    assert first == second != other_seed


def fail_when(model_calls: set[int], error: type[Exception] = RuntimeError, words: str = "out of luck") -> Any:
    """Raise at the calls of these numbers."""
    calls = iter(range(1000))

    def before(batch: ForwardBatch) -> None:
        if next(calls) in model_calls:
            raise error(words)

    return before


def test_a_failed_step_ends_its_requests_and_no_others(caplog: pytest.LogCaptureFixture) -> None:
    core, model = memory_core(max_num_seqs=2)
    model.before = fail_when({2})
    outputs = finish(core, [request(name, PROMPT) for name in "abc"])
    for name in "ab":
        error = outputs[name][-1].error
        assert isinstance(error, EngineStepError)
        assert isinstance(error.__cause__, RuntimeError)
        assert len(outputs[name]) == 3
    assert tokens(outputs)["c"] == continuation(PROMPT, 8)
    stats = core.stats()
    assert (stats.num_failed_steps, stats.num_finished) == (1, {"abort": 2, "length": 1})
    assert is_empty(core)
    assert "out of luck" in caplog.text


def test_what_a_failed_step_computed_is_not_cached(caplog: pytest.LogCaptureFixture) -> None:
    core, model = memory_core()
    model.before = fail_when({0})
    finish(core, [request("a", PROMPT)])
    outputs = finish(core, [request("b", PROMPT)])
    assert outputs["b"][0].ledger is not None
    assert outputs["b"][0].ledger.num_cached_tokens == 0
    assert tokens(outputs)["b"] == continuation(PROMPT, 8)


def test_too_many_failures_in_a_row_are_the_end(caplog: pytest.LogCaptureFixture) -> None:
    core, model = memory_core()
    model.before = fail_when({0, 1, 3, 4, 5})
    for name in "abcde":
        finish(core, [request(name, PROMPT, SamplingParams(max_tokens=1))])
    with pytest.raises(EngineDeadError, match=f"{MAX_FAILED_STEPS} steps in a row failed"):
        finish(core, [request("f", PROMPT)])
    assert is_empty(core)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError, "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4294967296 bytes."),
        (MemoryError, ""),
    ],
)
def test_steps_without_memory_are_told_and_never_the_end(
    error: type[Exception], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    core, model = memory_core()
    model.before = fail_when(set(range(2 * MAX_FAILED_STEPS)), error, words)
    for number in range(2 * MAX_FAILED_STEPS):
        (failed,) = finish(core, [request(f"{number}", PROMPT)])[f"{number}"]
        assert isinstance(failed.error, StepMemoryError)
        assert "the machine has no memory left for this step: send the request again" in str(failed.error)
        assert is_empty(core)
    assert tokens(finish(core, [request("a", PROMPT)]))["a"] == continuation(PROMPT, 8)


def test_aborting_frees_in_every_state() -> None:
    core, _ = memory_core(num_blocks=6, max_num_seqs=2)
    for name in "abc":
        core.add(request(name, PROMPT, namespace=name))
    core.step()
    (running,) = core.abort(RequestId("a"))
    (waiting,) = core.abort(RequestId("c"))
    assert (running.finish_reason, running.ledger is None) == ("abort", False)
    assert (waiting.finish_reason, waiting.ledger is None) == ("abort", True)
    assert core.abort(RequestId("a")) == core.abort(RequestId("nobody")) == []
    assert tokens(finish(core))["b"] == continuation(PROMPT, 8)[1:]
    assert is_empty(core)
    assert core.stats().num_finished == {"abort": 2, "length": 1}


def test_the_cache_is_reset_only_while_nothing_runs() -> None:
    core, _ = memory_core()
    core.add(request("a", PROMPT))
    core.step()
    assert not core.reset_prefix_cache()
    finish(core)
    assert core.reset_prefix_cache()
    outputs = finish(core, [request("b", PROMPT)])["b"]
    assert outputs[0].ledger is not None
    assert outputs[0].ledger.num_cached_tokens == 0


def test_a_pinned_prefix_is_kept_until_its_time_is_over() -> None:
    core, _ = memory_core(num_blocks=8)
    now = 100.0
    core.clock = lambda: now
    finish(core, [request("first", PROMPT)])
    pin = core.pin("system", Namespace(""), PROMPT[:8], 60.0)
    assert (pin.num_blocks, pin.num_tokens, pin.expires_at_s) == (2, 8, 160.0)
    for number in range(3):
        finish(core, [request(f"other-{number}", tuple(range(20 + number, 32 + number)))])
    assert core.pins() == (pin,)
    assert [node.num_holders for node in core.cache_tree(Namespace("")) if node.num_holders] == [1]
    (hit,) = finish(core, [request("again", (*PROMPT[:8], 3))])["again"][:1]
    assert hit.ledger is not None
    assert hit.ledger.num_cached_tokens == 8
    now = 160.0
    finish(core, [request("later", PROMPT)])
    assert core.pins() == ()
    assert is_empty(core)


def test_a_pin_can_be_let_go() -> None:
    core, _ = memory_core()
    finish(core, [request("first", PROMPT)])
    core.pin("system", Namespace(""), PROMPT)
    assert [core.unpin("system"), core.unpin("system")] == [True, False]
    assert is_empty(core)


@pytest.mark.parametrize(
    ("prompt", "params", "error", "message"),
    [
        ((), GREEDY, RequestError, "at least one token"),
        ((1, 97), GREEDY, RequestError, "prompt: token id 97 is not in the vocabulary of 97"),
        ((-1,), GREEDY, RequestError, "prompt: token id -1"),
        ((1,), SamplingParams(logit_bias=((97, 1.0),)), RequestError, "logit_bias: token id 97"),
        ((1,), SamplingParams(stop_token_ids=(200,)), RequestError, "stop_token_ids: token id 200"),
        (range(90), SamplingParams(max_tokens=11), PromptTooLongError, "100 tokens together, but 101"),
    ],
)
def test_what_can_never_run_is_refused(prompt: Any, params: SamplingParams, error: Any, message: str) -> None:
    core, _ = memory_core(max_model_len=100)
    with pytest.raises(error, match=message):
        core.add(request("a", prompt, params))
    assert core.step() is None


def test_an_id_in_use_is_refused() -> None:
    core, _ = memory_core()
    core.add(request("a", PROMPT))
    with pytest.raises(RequestError, match="'a' is in use"):
        core.add(request("a", PROMPT))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_happens_everybody_gets_their_own_tokens(data: st.DataObject) -> None:
    """Random arrivals, aborts and failures over a pool that is too small, against the continuation alone."""
    draw = data.draw
    core, model = memory_core(
        num_blocks=draw(st.integers(8, 20)),
        max_num_batched_tokens=draw(st.integers(1, 20)),
        max_num_seqs=draw(st.integers(1, 5)),
        enable_prefix_caching=draw(st.booleans()),
        max_logits_rows=draw(st.integers(1, 9)),
    )
    model.before = fail_when(draw(st.sets(st.integers(0, 30), max_size=MAX_FAILED_STEPS - 1)))
    prompts: dict[str, tuple[int, ...]] = {}
    outputs: dict[str, list[CoreOutput]] = {}
    for index in range(draw(st.integers(1, 25))):
        action = draw(st.sampled_from(["add", "add", "step", "step", "step", "abort"]))
        produced: list[CoreOutput] | None = None
        if action == "add":
            shared, own = draw(st.integers(1, 8)), draw(st.integers(0, 9))
            prompts[str(index)] = (1, 2, 3, 4, 5, 6, 7, 8)[:shared] + (index,) * own
            params = SamplingParams(
                temperature=0,
                max_tokens=draw(st.integers(0, 12)),
                prompt_logprobs=draw(st.sampled_from([None, None, 0])),
            )
            core.add(request(str(index), prompts[str(index)], params))
        elif action == "step":
            produced = core.step()
        elif prompts:
            produced = core.abort(RequestId(draw(st.sampled_from(sorted(prompts)))))
            core.scheduler.check_integrity()
        for output in produced or ():
            outputs.setdefault(output.request_id, []).append(output)
    for name, rest in finish(core).items():
        outputs.setdefault(name, []).extend(rest)
    assert set(outputs) == set(prompts)
    for name, of_one in outputs.items():
        said = tokens({name: of_one})[name]
        assert said == continuation(prompts[name], len(said))
        assert [o.is_last for o in of_one] == [False] * (len(of_one) - 1) + [True]
    assert is_empty(core)

import pytest

from anaphora.errors import PromptTooLongError, RequestError
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.ledger import Reason
from anaphora.scheduler.config import SchedulerConfig
from anaphora.sim.predict import Replay, SimulatedRequest, predict
from anaphora.types import Namespace

N = Namespace("")
CACHE = CacheConfig(num_blocks=32, block_size=4)
PREFIX = list(range(12))


def test_requests_in_sequence_hit_what_the_earlier_ones_left() -> None:
    ledgers = predict([(N, [*PREFIX, 50], 2), (N, [*PREFIX, 60], 2), (Namespace("x"), [*PREFIX, 60], 2)], CACHE)
    assert [ledger.num_cached_tokens for ledger in ledgers] == [0, 12, 0]
    assert ledgers[2].counts == {Reason.ISOLATED: 12, Reason.TAIL: 1}


def test_outputs_are_cached_if_they_are_known() -> None:
    answer = [21, 22, 23, 24]
    follow_up = [*PREFIX, *answer, 70]
    known = predict([(N, PREFIX, [*answer, 2]), (N, follow_up, 1)], CACHE)
    unknown = predict([(N, PREFIX, 5), (N, follow_up, 1)], CACHE)
    assert [ledger.num_cached_tokens for ledger in known] == [0, 16]
    assert [ledger.num_cached_tokens for ledger in unknown] == [0, 12]


def test_requests_together_share_what_neither_had() -> None:
    replay = Replay(CACHE)
    requests = [SimulatedRequest(N, [*PREFIX, 50 + i]) for i in range(4)]
    assert [ledger.num_cached_tokens for ledger in replay.run_together(requests)] == [0, 12, 12, 12]
    assert replay.scheduler.stats.num_computed_tokens == 12 + 4


def test_a_replay_goes_on_and_can_be_emptied() -> None:
    replay = Replay(CACHE)
    request = SimulatedRequest(N, [*PREFIX, 50])
    cached = [replay.run_in_sequence([request])[0].num_cached_tokens for _ in range(2)]
    replay.reset()
    cached += [replay.run_in_sequence([request])[0].num_cached_tokens for _ in range(2)]
    assert cached == [0, 12, 0, 12]


def test_a_request_may_pass_the_cache_by_or_want_no_output() -> None:
    replay = Replay(CACHE)
    ledgers = replay.run_in_sequence(
        [
            SimulatedRequest(N, [*PREFIX, 50], output=0),
            SimulatedRequest(N, [*PREFIX, 50], lookup=False),
            SimulatedRequest(N, [*PREFIX, 50], output=[]),
        ]
    )
    assert [ledger.counts for ledger in ledgers] == [
        {Reason.NEW: 12, Reason.TAIL: 1},
        {Reason.BYPASSED: 13},
        {Reason.REUSED_DEVICE: 12, Reason.TAIL: 1},
    ]


def test_the_limits_of_the_server_can_be_given() -> None:
    with pytest.raises(PromptTooLongError, match="the context length is 8"):
        predict([(N, PREFIX, 1)], CACHE, scheduler=SchedulerConfig(max_model_len=8))
    with pytest.raises(PromptTooLongError, match="the KV cache holds 128"):
        predict([(N, [1] * 129, 0)], CACHE)
    with pytest.raises(RequestError, match="the prompt is empty"):
        predict([(N, [], 1)], CACHE)

import pytest
import torch

from anaphora.engine.logprobs import PromptLogprobs, position_logprobs

LOGITS = torch.tensor([[1.0, 3.0, 2.0], [0.0, 0.0, 5.0]])


def test_token_rank_and_alternatives_of_each_row() -> None:
    first, second = position_logprobs(LOGITS, [0, 2], [2, 1])
    expected = torch.log_softmax(LOGITS, dim=-1)
    assert (first.token.token_id, first.token.rank) == (0, 3)
    assert first.token.logprob == pytest.approx(expected[0, 0].item())
    assert [(t.token_id, t.rank) for t in first.top] == [(1, 1), (2, 2)]
    assert (second.token.rank, [t.token_id for t in second.top]) == (1, [2])


def test_more_alternatives_than_tokens_are_all_tokens() -> None:
    (entry,) = position_logprobs(LOGITS[:1], [1], [20])
    assert [t.token_id for t in entry.top] == [1, 2, 0]


def test_a_prompt_is_collected_from_chunks() -> None:
    prompt = [2, 0, 1, 2]
    whole = PromptLogprobs(prompt, 0)
    assert whole.wanted(0, 4) == range(0, 3)
    assert whole.wanted(2, 3) == range(2, 3)
    assert not whole.wanted(3, 9)
    logits = torch.randn(3, 3)
    whole.add(0, logits[:2])
    assert whole.take() is None
    whole.add(0, logits[:1])  # computed again after a preemption
    assert whole.take() is None
    whole.add(2, logits[2:])
    assert not whole.wanted(0, 4)
    entries = whole.take()
    assert entries is not None
    assert entries[0] is None
    assert list(entries[1:]) == position_logprobs(logits, [0, 1, 2], [0, 0, 0])
    assert whole.take() is None


def test_a_prompt_of_one_token_has_nothing_to_wait_for() -> None:
    assert PromptLogprobs([5], 1).take() == (None,)

"""From a trace to prompts: shrunk without a change of what is shared, and refused where it cannot be."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import ConfigError, TraceError
from anaphora.lab.load.replay import Replay, read_replay


def replay(folder: Path, rows: list[dict[str, Any]], *, shrink: int = 1, block_size: int | None = None) -> Replay:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_replay(path, format_name=None, block_size=block_size, shrink=shrink, default_output_tokens=7)


def hashed(length: int, ids: list[int], **more: Any) -> dict[str, Any]:
    return {"timestamp": 0, "input_length": length, "hash_ids": ids, **more}


@given(
    lengths=st.lists(st.integers(1, 5000), min_size=1, max_size=8),
    shrink=st.sampled_from([1, 2, 16, 100, 512]),
)
def test_a_shrunk_prompt_keeps_its_blocks_and_has_a_tail_where_it_had_one(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], shrink: int
) -> None:
    rows = [hashed(length, list(range(-(-length // 512))), output_length=64) for length in lengths]
    made = replay(tmp_path_factory.mktemp("t"), rows, shrink=shrink)
    assert made.block_size == 512 // shrink
    for length, prompt in zip(lengths, made.blocks, strict=True):
        whole, tail = divmod(length, 512)
        assert len(prompt.block_ids) == whole + (tail > 0)
        extra = prompt.num_tokens - whole * made.block_size
        assert (1 if tail else 0) <= extra <= made.block_size
        assert prompt.output_tokens == max(1, round(64 / shrink))


def test_an_output_that_the_trace_does_not_tell_is_the_one_asked_for(tmp_path: Path) -> None:
    assert replay(tmp_path, [hashed(10, [0])]).outputs == [7]


@pytest.mark.parametrize(
    ("row", "fields"),
    [
        (
            {"messages": [{"role": "user", "content": "a"}], "model": "m"},
            {"messages": [{"role": "user", "content": "a"}]},
        ),
        ({"timestamp": 0, "text_input": "a b"}, {"prompt": "a b"}),
        ({"prompt_token_ids": [5, 6, 7]}, {"prompt": [5, 6, 7]}),
    ],
)
def test_other_prompts_are_sent_as_they_are(tmp_path: Path, row: dict[str, Any], fields: dict[str, Any]) -> None:
    made = replay(tmp_path, [row])
    assert made.verbatim == [fields]
    assert made.is_chat is ("messages" in fields)
    assert made.has_token_ids is isinstance(fields.get("prompt"), list)
    with pytest.raises(ConfigError, match="--shrink is for traces of block ids"):
        replay(tmp_path, [row], shrink=2)


def test_kinds_of_prompts_are_not_mixed_and_blocks_not_shrunk_away(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="mixes HashedPrompts and TextPrompts"):
        replay(tmp_path, [hashed(10, [0]), {"timestamp": 1, "text_input": "a"}])
    with pytest.raises(ConfigError, match="leaves nothing of blocks of 512 tokens"):
        replay(tmp_path, [hashed(10, [0])], shrink=513)

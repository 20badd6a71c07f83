"""Texts that tell tokenizers apart: real ones, and pieces that random ones are made of."""

import json
from pathlib import Path

from hypothesis import strategies as st

TEXTS = Path(__file__).parents[1] / "data" / "texts"


def real_texts() -> list[str]:
    whole = [path.read_text("utf-8") for path in sorted(TEXTS.iterdir()) if path.name != "README.md"]
    dialogues = [json.loads(line) for line in (TEXTS / "swe_agent_dialogues.jsonl").read_text("utf-8").splitlines()]
    messages = [str(message["content"]) for dialogue in dialogues for message in dialogue["messages"]]
    questions = [json.loads(line) for line in (TEXTS / "mt_bench_question.jsonl").read_text("utf-8").splitlines()]
    return [*whole, *messages, *[turn for question in questions for turn in question["turns"]]]


pieces = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.text(" \t\n\r", min_size=1, max_size=30),
    st.text("0123456789.,-+", min_size=1, max_size=20),
    st.text("'`\"<|>_im_startend/\\(){}[]=:;#@$%&*~^", min_size=1, max_size=20),
    st.sampled_from(["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "<think>", "<|im_start", "end|>"]),
    st.sampled_from(["'s", "'LL", "\u2019re", "e\u0301", "\u212b", "\u0130", "\ufb01", "\u200d", "\ufe0f", "\x00"]),
    st.sampled_from(["def f(x):\n\treturn x\n", "\u4f60\u597d", "\u0939\u093f", "\u0e19\u0e49\u0e33"]),
)

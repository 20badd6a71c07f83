"""Groups are called by what people know them as."""

import pytest

from anaphora.lab.group_names import group_name
from anaphora.lab.progress import describe
from tests.lab.records import record


@pytest.mark.parametrize(
    ("experiment", "group", "label", "name"),
    [
        ("scenarios", 2, "documents", "documents"),
        ("prompts", 1, "甲", "甲"),
        ("costs", 512, "512 + 256", "512 + 256"),
        ("gradient", 1024, "1024-token prefix", "1024"),
        ("switch", 1500, "Why was the Suez Canal built, and who paid for it?", "1500"),
        ("prompts", 3, "", "3"),
    ],
)
def test_by_label_or_by_length(experiment: str, group: int, label: str, name: str) -> None:
    one = record(experiment=experiment, group=group, label=label)
    assert group_name(one) == name
    assert describe(one).startswith(f"{experiment} {name} {one.arm}")

"""Salts are such that the strictest known server takes them, and stay apart."""

import re
from typing import Literal

import pytest

from anaphora.lab.arms import Mechanism
from anaphora.lab.salts import salt_of
from anaphora.lab.workloads.prompts import PromptFactory
from anaphora.lab.workloads.texts import texts_of

ALLOWED = re.compile(r"[^@/\\\0]{1,128}")
"""The rule that vLLM 0.32 states when it refuses one."""


@pytest.mark.parametrize("family", ["switch", "warmup/on/1", "a@b\\c\0", "long " * 60])
def test_salts_of_requests_are_allowed_and_differ_where_a_miss_is_meant(family: str) -> None:
    factory = PromptFactory("run", Mechanism.SALT, texts_of("en"))

    def salt(arm: Literal["on", "off"], number: int) -> str | None:
        request = factory.request(family=family, arm=arm, number=number, num_units=4, question="?", max_tokens=1)
        return request.cache_salt

    salts = [salt("on", number) for number in range(12)] + [salt("off", number) for number in range(12)]
    assert all(salt is not None and ALLOWED.fullmatch(salt) for salt in salts)
    assert len(set(salts)) == 1 + 12


def test_the_latest_parts_of_a_long_salt_are_kept() -> None:
    assert salt_of("x" * 500, 7) == "x" * 126 + ".7"
    assert salt_of(None, "a") == "a"

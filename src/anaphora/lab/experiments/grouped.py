"""Chats of named groups in both arms: their rounds, and what each group gained."""

from collections.abc import Iterable, Sequence
from typing import Any

from anaphora.errors import ConfigError
from anaphora.lab import statistics
from anaphora.lab.arms import Round, Trial
from anaphora.lab.experiments.base import Planner
from anaphora.lab.experiments.summary import of_arm, paired_difference, paired_reduction, percent, summarise
from anaphora.lab.timings import ttft_ms
from anaphora.lab.witnesses import hit_rates, prompt_tokens
from anaphora.lab.workloads.chats import Chat
from anaphora.traces.records import Arm, RequestRecord


async def grouped_rounds(experiment: str, chats: Iterable[Chat], planner: Planner) -> list[Round]:
    """One round a chat, both arms in each, in the given order; the first of a group is shown apart.

    What does not fit the context is left out aloud; :class:`ConfigError` if nothing fits.
    """
    rounds: list[Round] = []
    numbers: dict[str, int] = {}
    sent: dict[str, int] = {}
    left_out = 0
    for chat in chats:
        if not planner.fits(await planner.count(chat.text()), chat.max_tokens):
            left_out += 1
            continue
        group = numbers.setdefault(chat.group, len(numbers) + 1)
        index = sent[chat.group] = sent.get(chat.group, 0) + 1
        rounds.append(
            (
                _trial(experiment, planner, chat, "on", group, index),
                _trial(experiment, planner, chat, "off", group, index),
            )
        )
    if left_out:
        planner.note(f"{left_out} requests do not fit the context of {planner.max_model_len}: left out")
    if not rounds:
        raise ConfigError(f"no request fits the context of {planner.max_model_len}")
    return rounds


def _trial(experiment: str, planner: Planner, chat: Chat, arm: Arm, group: int, index: int) -> Trial:
    return Trial(
        experiment=experiment,
        arm=arm,
        phase="first" if index == 1 else "measured",
        group=group,
        index=index,
        label=chat.group,
        request=planner.prompts.own(
            chat.messages,
            family=f"{experiment}/{group}",
            arm=arm,
            number=index,
            max_tokens=chat.max_tokens,
            tools=chat.tools,
        ),
    )


def analyse(records: Sequence[RequestRecord], *, seed: int) -> dict[str, Any]:
    """The experiment's part of the results: a row for each group, in the order of the first requests."""
    names = dict.fromkeys(record.label for record in records)
    return {
        "rows": [_row(name, [record for record in records if record.label == name], seed) for name in names],
        "hit_rate_percent": hit_rates([r for r in records if r.arm == "on"]),
        "hit_rate_percent_after_first": hit_rates(of_arm(records, "on")),
        "hit_rate_percent_off": hit_rates([r for r in records if r.arm == "off"]),
    }


def _row(name: str, records: Sequence[RequestRecord], seed: int) -> dict[str, Any]:
    on = [record for record in records if record.arm == "on"]
    arms = {arm: summarise(of_arm(records, arm)) for arm in ("off", "on")}
    off_ms, on_ms = arms["off"]["ttft_ms_median"], arms["on"]["ttft_ms_median"]
    counts = [count for record in on if (count := prompt_tokens(record)) is not None]
    return {
        "group": name,
        "num_requests": len(on),
        "num_failed": sum(record.error is not None for record in records),
        "num_measured": {arm: _num_measured(records, arm) for arm in ("off", "on")},
        "prompt_tokens": statistics.median(counts),
        "off_ttft_ms": off_ms,
        "on_ttft_ms": on_ms,
        "off_e2e_ms": arms["off"]["e2e_ms_median"],
        "on_e2e_ms": arms["on"]["e2e_ms_median"],
        "saved_ms_paired": paired_difference(records, ttft_ms),
        "reduction_percent": percent(statistics.reduction_percent(off_ms, on_ms)),
        "reduction_percent_interval": paired_reduction(records, ttft_ms, seed=seed),
        "hit_rate_percent": hit_rates(on),
        "hit_rate_percent_after_first": hit_rates(of_arm(records, "on")),
    }


def _num_measured(records: Sequence[RequestRecord], arm: Arm) -> int:
    return sum(ttft_ms(record) is not None for record in of_arm(records, arm))

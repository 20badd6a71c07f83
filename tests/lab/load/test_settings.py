"""What may be asked, and in what order it is run."""

import itertools
from typing import Any

import pytest

from anaphora.errors import ConfigError
from anaphora.lab.command_line import words_of
from anaphora.lab.load.capacity import Capacity, processes_for
from anaphora.lab.load.jobs import Address, ClosedShare, OpenShare
from anaphora.lab.load.records import Loop
from anaphora.lab.load.settings import LoadSettings
from anaphora.lab.load.stages import Shares, sweep
from anaphora.lab.load.workloads import VerbatimWorkload
from tests.lab.load.test_workloads import asking


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"concurrency": (1, 4), "rate": (1.0,)}, "--concurrency and --rate are two sorts of load"),
        ({"rate": (1.0,), "trace": "t"}, "--rate and --trace are two sorts"),
        ({"concurrency": (0,)}, "--concurrency takes different numbers"),
        ({"concurrency": (4, 4)}, "--concurrency takes different numbers"),
        ({"rate": (-1.0,)}, "--rate takes different numbers"),
        ({"trace": "t", "speed": (0.0,)}, "--speed takes different numbers"),
        ({"speed": (2.0,)}, "give the --trace"),
        ({"shrink": 4}, "give the --trace"),
        ({"rate": (1.0,), "num_requests": 5}, "--requests ends a closed loop"),
        ({"num_requests": 0}, "--requests must be at least 1"),
        ({"processes": 0}, "--processes must be at least 1"),
        ({"duration_s": 0.1}, "--duration must be"),
        ({"duration_s": float("nan")}, "--duration must be"),
        ({"warmup_s": -1.0}, "--warmup must be"),
        ({"timeout_s": 0.0}, "--request-timeout must be"),
        ({"timeout_s": float("nan")}, "--request-timeout must be"),
        ({"rate": (1e12,)}, "--rate must be at most 100,000 requests a second"),
        ({"rounds": 0}, "--rounds must be at least 1"),
        ({"output_tokens": 0}, "--output-tokens must be at least 1"),
        ({"num_prefixes": 0}, "--prefixes must be at least 1"),
        ({"slo": "ttft=1"}, "--slo has no limit"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        LoadSettings(**changes)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "loop", "levels"),
    [
        (LoadSettings(), "closed", (1.0, 4.0, 16.0, 32.0)),
        (LoadSettings(concurrency=(8, 2)), "closed", (2.0, 8.0)),
        (LoadSettings(rate=(3.0, 0.5)), "open", (0.5, 3.0)),
        (LoadSettings(trace="t.jsonl", speed=(4.0,)), "replay", (4.0,)),
    ],
)
def test_the_load_is_told_by_what_is_given(settings: LoadSettings, loop: str, levels: tuple[float, ...]) -> None:
    assert (settings.loop, settings.levels) == (loop, levels)


def test_settings_say_how_to_ask_the_same_again() -> None:
    settings = LoadSettings(rate=(0.5, 2.0), duration_s=9, slo="ttft_ms=200", num_prefixes=3)
    words = " ".join(words_of(settings))
    assert words == "--rate 0.5,2.0 --duration 9 --prefixes 3 --slo ttft_ms=200"


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_every_level_runs_in_both_arms_every_round_and_neither_arm_is_always_first(rounds: int) -> None:
    stages = sweep("closed", (1.0, 4.0, 16.0, 32.0), rounds, lambda level: 1)
    assert [stage.number for stage in stages] == list(range(8 * rounds))
    asked = {(stage.level, stage.arm, stage.round) for stage in stages}
    assert asked == set(itertools.product((1.0, 4.0, 16.0, 32.0), ("on", "off"), range(rounds)))
    firsts = [stages[place].arm for place in range(0, len(stages), 2)]
    assert abs(firsts.count("on") - firsts.count("off")) <= rounds % 2
    assert all(stages[place].level == stages[place + 1].level for place in range(0, len(stages), 2))
    second = [stage.level for stage in stages if stage.round == 1]
    assert second == sorted(second, reverse=True)


@pytest.mark.parametrize(
    ("num_streams", "per_process", "most", "needed"), [(1, 64, 2, 1), (64, 64, 2, 1), (65, 64, 2, 2), (128, 64, 2, 2)]
)
def test_streams_are_spread_over_as_few_processes_as_can_time_them(
    num_streams: int, per_process: int, most: int, needed: int
) -> None:
    assert processes_for(num_streams, Capacity(per_process, ()), most) == needed


@pytest.mark.parametrize(
    ("num_streams", "per_process", "most", "said"),
    [
        (129, 64, 2, "129 requests at once are more than this machine can time truly: 2 processes of 64 streams each"),
        (5, 4, 1, "1 process of 4 streams each"),
        (1, 0, 8, "cannot time a single stream truly now"),
    ],
)
def test_more_than_the_machine_can_time_is_refused_with_the_reason(
    num_streams: int, per_process: int, most: int, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        processes_for(num_streams, Capacity(per_process, ()), most)


@pytest.mark.parametrize("loop", ["closed", "open"])
@pytest.mark.parametrize("num_processes", [1, 2, 3])
def test_every_client_and_every_due_request_belongs_to_one_process(num_processes: int, loop: Loop) -> None:
    schedule = [(float(n), n) for n in range(10)]
    (stage, _) = sweep(loop, (7.0,), 1, lambda level: num_processes)
    shares = Shares(
        {"on": Address("http://on/v1"), "off": Address("http://off/v1")},
        lambda stage: VerbatimWorkload(asking=asking(), is_chat=True, prompts=[{}], output_tokens=[1]),
        None if loop == "closed" else lambda stage: schedule,
        1.0,
        64,
    )
    jobs = shares.jobs(stage)
    assert [job.process for job in jobs] == list(range(num_processes))
    assert {job.address.api_url for job in jobs} == {"http://on/v1"}
    clients = [c for job in jobs if isinstance(job.share, ClosedShare) for c in job.share.clients]
    due = [d for job in jobs if isinstance(job.share, OpenShare) for d in job.share.schedule]
    assert (sorted(clients), sorted(due)) == ((list(range(7)), []) if loop == "closed" else ([], schedule))

"""Runs made for comparisons: a gradient with planted times and seeded noise."""

import dataclasses

import numpy as np

from anaphora.traces.records import RequestRecord, Run
from tests.lab.records import record
from tests.lab.test_report import header

LENGTHS = (100, 200, 400)


def gradient_run(
    *, seed: int, factor: float = 1.0, noise: float = 0.0, repeats: int = 8, lengths: tuple[int, ...] = LENGTHS
) -> Run:
    """Off: 20 ms and 0.2 ms a token; on: 10 ms and 0.02 ms a token, times ``factor``; noise in proportion."""
    rng = np.random.default_rng(seed)
    requests: list[RequestRecord] = []
    for length in lengths:
        for index in range(1, repeats + 1):
            for arm, time in (("off", 20 + 0.2 * length), ("on", (10 + 0.02 * length) * factor)):
                cached = length // 16 * 16 if arm == "on" else 0
                usage = {"prompt_tokens": length, "prompt_tokens_details": {"cached_tokens": cached}}
                ttft = time * float(rng.normal(1, noise)) if noise else time
                requests.append(
                    record(
                        experiment="gradient",
                        arm=arm,
                        group=length,
                        index=index,
                        label=f"{length}-token prefix",
                        max_tokens=1,
                        ttft_ms=ttft,
                        e2e_ms=ttft + 1,
                        usage=usage,
                        num_prompt_tokens=length,
                    )
                )
    made = header(len(requests))
    settings = {**made.settings, "experiments": {"gradient": {"lengths": list(lengths), "repeats": repeats}}}
    return Run(dataclasses.replace(made, run_id=f"r{seed}", settings=settings), tuple(requests))


def with_settings(run: Run, **changes: object) -> Run:
    """The same run, asked otherwise."""
    return dataclasses.replace(run, header=dataclasses.replace(run.header, settings={**run.header.settings, **changes}))

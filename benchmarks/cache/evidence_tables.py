"""The results under ``benchmarks/results/cache`` as tables for people; the documentation includes them.

python -m benchmarks.cache.evidence_tables
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.markdown import table

RESULTS = Path(__file__).parents[1] / "results" / "cache"
LABELS = ("0", "m")
"""Values of the labels ``engine`` and ``model_name`` in the attack's series."""
Row = tuple[object, ...]
Results = dict[str, Any]


def against_vllm(results: Results) -> str:
    """Requests by whether vLLM had a duplicate by then."""
    names = {"no_duplicate_yet": "before vLLM's first duplicate", "after_a_duplicate": "after it"}
    rows: list[Row] = []
    for part, name in names.items():
        counts = results["requests"][part]
        numbers = ("requests", "equal", "ours_more", "vllm_more", "cached_tokens_ours", "cached_tokens_vllm")
        rows.append((name, *(f"{counts[number]:,}" for number in numbers)))
    head = ("schedule", "requests", "equal", "ours more", "vLLM more", "cached tokens, ours", "cached tokens, vLLM")
    versions = results["versions"]
    num_untraced = sum(len(one["operations"]) for one in results["untraced"])
    facts = (
        f"vLLM {versions['vllm']}, Python {versions['python']}; {results['num_schedules']:,} schedules with "
        f"{results['num_operations']:,} operations; in {results['num_schedules_without_duplicates']:,} of them vLLM "
        f"never holds a duplicate. Operations in which both differ: {results['num_differing_operations']:,}; "
        f"not traced to a duplicate: {num_untraced:,}."
    )
    return f"{facts}\n\n{table(head, rows)}"


def radix(results: Results) -> str:
    """One row for each trace, room and block size."""
    rows: list[Row] = []
    for name, trace in results["traces"].items():
        for run in trace["runs"]:
            times = run["mean_ms_per_request"]
            rows.append(
                (
                    f"{name} ({trace['num_requests']})",
                    run["room"],
                    run["block_size"],
                    f"{100 * run['token_hit_rate']:.2f} %",
                    run["index_mib"],
                    run["index_bytes_per_held_token"],
                    f"{run['longest_lookup_ms']['median']:.3f} ({run['longest_lookup_ms']['cached_tokens']:,})",
                    times["match"],
                    times["admit_commit_free"],
                )
            )
    head = (
        *("prompts (requests)", "room for", "block size", "tokens hit", "index MiB", "bytes a held token"),
        *("lookup of the longest, ms (tokens found)", "mean lookup, ms", "mean admit, commit, free, ms"),
    )
    hardware = results["hardware"]
    facts = (
        f"{hardware['cpu']}, {hardware['cores']} cores, Python {results['python']}; tokens of {results['tokenizer']}."
    )
    return f"{facts}\n\n{table(head, rows)}"


def timing_attack(results: Results) -> str:
    """Areas under the curve of the attacker and of the control."""
    rows: list[Row] = []
    attacker, control = results["attacker"], results["control"]
    for name in sorted({*attacker["areas"], *control["areas"]}, key=lambda name: (name != "ttft_ms", name)):
        shown = " ".join(word for word in name.removeprefix("metric ").split() if word not in LABELS)
        rows.append((f"`{shown}`", _area(attacker["areas"].get(name)), _area(control["areas"].get(name))))
    medians = [results[who]["median_ttft_ms"] for who in ("attacker", "control")]
    rows.append(("median TTFT after a right guess, ms", *(median["right_guess"] for median in medians)))
    rows.append(("median TTFT after a wrong guess, ms", *(median["wrong_guess"] for median in medians)))
    hardware = results["hardware"]
    facts = (
        f"{hardware['cpu']}, {hardware['cores']} cores (load average {results['load_before'][0]:.0f} before, "
        f"{results['load_after'][0]:.0f} after), {results['model']}; {results['num_trials']} trials, "
        f"{results['num_right_guesses']} with a right guess of {results['num_guessed_tokens']} tokens. "
        f"Besides, the attacker was told {attacker['num_things_equal_in_all_trials']} things that were the same in "
        f"every trial."
    )
    return f"{facts}\n\n{table(('seen', 'attacker: AUC (95 %)', 'control: AUC (95 %)'), rows)}"


def _area(area: dict[str, Any] | None) -> str:
    if area is None:
        return "never differs"
    low, high = area["interval"]
    return f"{area['auc']:.3f} ({low:.3f} to {high:.3f})"


def soak(results: Results) -> str:
    """One row for each policy."""
    names = ("steps", "requests", "stored_blocks", "evicted_blocks", "resets", "events", "differences")
    rows: list[Row] = [
        (f"`{policy}`", *(f"{done[name]:,}" for name in names)) for policy, done in results["policies"].items()
    ]
    return table(("policy", *(name.replace("_", " ") for name in names)), rows)


CORE_STAGES = ("pack", "request with hashes", "allocate and commit", "free", "lookup", "hold")


def core(results: Results) -> str:
    """One row for each arm and pool; then the memory."""
    rows: list[Row] = []
    for row in results["summary"]:
        median, least = row["median_ms"], row["least_ms"]
        times = [f"{median[stage]:.2f} ({least[stage]:.2f})" if stage in median else "–" for stage in CORE_STAGES]
        rows.append((row["arm"], f"{row['pool']:,}", *times))
    hardware = results["hardware"]
    facts = (
        f"{hardware['cpu']}, {hardware['cores']} cores (load average {results['load_before'][0]:.0f} before, "
        f"{results['load_after'][0]:.0f} after), Python {results['python']}. A prompt of {results['prompt_blocks']:,} "
        f"blocks of {results['block_size']} tokens; milliseconds, median (least)."
    )
    memory = [
        (f"{shape} blocks" if shape.isdigit() else shape, size) for shape, size in results["bytes_per_block"].items()
    ]
    speed = table(("arm", "blocks of the pool", *CORE_STAGES), rows)
    sizes = table(("prompts, in a pool of a million blocks", "bytes a block"), [*memory])
    return "\n\n".join(filter(None, (facts, speed, sizes, results.get("memory_note"))))


TABLES: dict[str, Callable[[Results], str]] = {
    "against_vllm": against_vllm,
    "core": core,
    "radix": radix,
    "timing_attack": timing_attack,
    "soak": soak,
}


def rendered(name: str) -> str:
    """The table of one kept result."""
    return TABLES[name](json.loads((RESULTS / f"{name}.json").read_text())) + "\n"


def main() -> None:
    for name in TABLES:
        (RESULTS / f"{name}.md").write_text(rendered(name))


if __name__ == "__main__":
    main()

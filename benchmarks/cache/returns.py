"""What a trace shows of who comes back: by turn, by size, by answer, by age; how often blocks are shared, and how deep.

    python -m benchmarks.cache.returns FOLDER --out benchmarks/results/cache/returns.json

Of the conversation trace the tuning half is looked at, of the coding sessions all. A request *returns* to an earlier
one if it finds that one's last full block in a cache without bounds. Ages are counted in blocks stored since, as in the
policy, and given as shares of the working set. Whoever would have returned after the end of the trace counts as not
returning.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.cache.policies import load_set

from anaphora.sim.prefix_paths import count_prefixes, paths_of
from anaphora.sim.prompt_blocks import PromptBlocks, cut_into_blocks

SETS = ("conversation, tuning half", "coding sessions")
AGES = tuple(2.0**exponent for exponent in range(-9, 1))
"""In working sets."""


class Leaving(NamedTuple):
    """A request as it left its blocks, and the age at which it was first returned to, in stored blocks."""

    turn: int
    num_added: int
    num_answer_tokens: int
    returned_at_age: int | None


def leavings_of(prompts: Sequence[PromptBlocks]) -> list[Leaving]:
    """One for each request that has a full block, in the order of the trace."""
    paths = [path[: p.num_full_blocks] for p, path in zip(prompts, paths_of(prompts), strict=True)]
    turns: dict[int, int] = {}
    last_to_end_here: dict[int, tuple[int, int]] = {}
    ages: dict[int, int] = {}
    facts: list[tuple[int, int, int, int]] = []
    num_stored = 0
    for number, (prompt, path) in enumerate(zip(prompts, paths, strict=True)):
        found = [prefix for prefix in path[: prompt.num_reusable_blocks] if prefix in turns]
        for prefix in found:
            if prefix in last_to_end_here:
                earlier, left_at = last_to_end_here.pop(prefix)
                ages[earlier] = num_stored - left_at
        turn = turns[found[-1]] + 1 if found else 1
        added = [prefix for prefix in path if prefix not in turns]
        turns.update(dict.fromkeys(added, turn))
        num_stored += len(added)
        if path:
            last_to_end_here[path[-1]] = number, num_stored
            facts.append((number, turn, len(added), prompt.num_output_tokens or 0))
    return [Leaving(turn, num_added, answer, ages.get(number)) for number, turn, num_added, answer in facts]


Range = tuple[int, str]
"""Where it begins, and what it is called."""


def shares_by(leavings: Iterable[Leaving], key: Callable[[Leaving], Range]) -> list[dict[str, Any]]:
    """How many there are in each range, and which share of them was returned to."""
    counts: dict[Range, list[int]] = {}
    for leaving in leavings:
        count = counts.setdefault(key(leaving), [0, 0])
        count[0] += 1
        count[1] += leaving.returned_at_age is not None
    return [{"what": name, "requests": n, "returned": round(r / n, 4)} for (_, name), (n, r) in sorted(counts.items())]


def later_by_age(leavings: Sequence[Leaving], working_set: int) -> list[float]:
    """Of what nobody had returned to until an age, the share that somebody returned to later."""
    shares: list[float] = []
    for age in AGES:
        waiting = [x for x in leavings if x.returned_at_age is None or x.returned_at_age >= age * working_set]
        shares.append(round(sum(x.returned_at_age is not None for x in waiting) / len(waiting), 4))
    return shares


def sharing_of(prompts: Sequence[PromptBlocks], working_set: int) -> dict[str, Any]:
    """Blocks by the number of requests that found them, and by their place in the prompt."""
    num_uses, places = [0] * working_set, [0] * working_set
    for prompt, path in zip(prompts, paths_of(prompts), strict=True):
        for place, prefix in enumerate(path[: prompt.num_full_blocks]):
            num_uses[prefix] += 1
            places[prefix] = place
    used = [(uses - 1, place) for uses, place in zip(num_uses, places, strict=True) if uses]
    all_uses = sum(uses for uses, _ in used)
    return {
        "by uses": _portions(used, all_uses, lambda uses, _: uses, (0, 1, 3, 10, None)),
        "by place": _portions(used, all_uses, lambda _, place: place, (0, 7, 31, 127, None)),
    }


def _portions(
    used: Sequence[tuple[int, int]], all_uses: int, key: Callable[[int, int], int], ends: Sequence[int | None]
) -> list[dict[str, Any]]:
    """For each range up to an end: its share of the blocks, of all uses, and the share of its blocks used again."""
    rows: list[dict[str, Any]] = []
    first = 0
    for end in ends:
        part = [pair for pair in used if first <= key(*pair) and (end is None or key(*pair) <= end)]
        rows.append(
            {
                "from": first,
                "to": end,
                "blocks": round(len(part) / len(used), 4),
                "uses": round(sum(uses for uses, _ in part) / all_uses, 4),
                "used_again": round(sum(uses > 0 for uses, _ in part) / max(len(part), 1), 4),
            }
        )
        first = (end or 0) + 1
    return rows


def look_at(prompts: Sequence[PromptBlocks]) -> dict[str, Any]:
    """Everything about one set of requests."""
    working_set, leavings = count_prefixes(paths_of(prompts)), leavings_of(prompts)
    return {
        "num_requests": len(prompts),
        "block_size": prompts[0].block_size,
        "working_set_blocks": working_set,
        "by turn": shares_by(leavings, lambda x: (x.turn, f"{x.turn}") if x.turn < 6 else (6, "6 and more")),
        "by added blocks": shares_by(leavings, lambda x: _powers_of_4(x.num_added)),
        "by answer tokens": shares_by(leavings, lambda x: _powers_of_4(x.num_answer_tokens)),
        "ages": AGES,
        "later by age": {
            "first turns": later_by_age([x for x in leavings if x.turn <= 2], working_set),
            "later turns": later_by_age([x for x in leavings if x.turn > 2], working_set),
        },
        **sharing_of(prompts, working_set),
    }


def _powers_of_4(number: int) -> Range:
    """The range between powers of four that a number lies in."""
    if number == 0:
        return 0, "0"
    low = 4 ** ((number.bit_length() - 1) // 2)
    return low, f"{low} to {4 * low - 1}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the traces lie")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file to write")
    options = parser.parse_args()
    results = {name: look_at(cut_into_blocks(load_set(name, options.folder))) for name in SETS}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Does llama.cpp's server reuse what ``anaphora.lab.slots`` says, prompt by prompt?

python benchmarks/servers/slots.py URL OUT.json [--prompts 80] [--seed 0]

URL: a llama.cpp server that has just been started, and serves nobody else. Random prompts that share beginnings of
every length are sent one after another, as token ids; the file keeps what each reused and what was predicted.
"""

import argparse
import json
import random
import urllib.request
from pathlib import Path
from typing import Any

from anaphora.lab.slots import SlotCache

VOCABULARY = range(1000, 20_000)
LONGEST = 60


def prompts(number: int, rng: random.Random) -> list[list[int]]:
    """Each new, or the beginning of an earlier one with other tokens behind it."""
    made: list[list[int]] = []
    for _ in range(number):
        earlier = rng.choice(made) if made and rng.random() < 0.7 else []
        shared = earlier[: rng.randint(0, len(earlier))] if earlier else []
        own = rng.choices(VOCABULARY, k=rng.randint(1, LONGEST))
        made.append([*shared, *own][: 2 * LONGEST])
    return made


def main() -> None:
    """Send them, compare, keep everything, print the count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("out", type=Path)
    parser.add_argument("--prompts", type=int, default=80)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    num_slots = int(_get(f"{asked.url}/props")["total_slots"])
    cache = SlotCache(num_slots)
    rows = []
    for prompt in prompts(asked.prompts, random.Random(asked.seed)):
        answer = _get(
            f"{asked.url}/completion",
            {"prompt": prompt, "n_predict": 2, "cache_prompt": True, "temperature": 0, "ignore_eos": True},
        )
        rows.append(
            {
                "num_prompt_tokens": len(prompt),
                "reused": answer["timings"]["cache_n"],
                "predicted": cache.serve(prompt, 2),
            }
        )
    agree = sum(row["reused"] == row["predicted"] for row in rows)
    result = {"num_slots": num_slots, "seed": asked.seed, "num_prompts": len(rows), "num_agree": agree, "rows": rows}
    asked.out.write_text(json.dumps(result) + "\n", "utf-8")
    print(f"{agree} of {len(rows)} prompts reused what was predicted, with {num_slots} slots")


def _get(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()

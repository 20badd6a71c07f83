"""Matching token by token, as a radix tree of tokens does, against blocks of 16, on the same prompts.

    python -m benchmarks.cache.radix --model MODEL --data DATA --out benchmarks/results/cache/radix.json

``--model``: a folder with the tokenizer and chat template that make the prompts (``anaphora fetch`` prints one).
``--data``: a folder with ``prompts/swe_agent_dialogues.jsonl.gz``, ``prompts/bfcl_multi_turn.jsonl``,
``prompts/bfcl_tool_definitions.json`` and ``claude_code_sessions.jsonl.gz``.

The cache core runs with blocks of 1, 16 and 64 tokens, under LRU: with room for everything, and with room for a quarter
of the distinct tokens. Requests follow one another, and only prompts are cached. Each configuration has a process of
its own. Memory is that of the index and the pool's books (keys and values are not here), counted in a second replay.
Times are CPU time of the host's work alone: what attention makes of blocks of one token is another matter.

The coding sessions are known in blocks of 64 tokens only. Each block is given 64 tokens of its own, so there memory
and times are true, but of the hits only what tail and last token cost: where within a block prompts part, nobody knows.
"""

import argparse
import gc
import gzip
import json
import multiprocessing
import platform
import random
import statistics
import time
import tracemalloc
from array import array
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.cpu.procfs import describe_hardware

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.tokenizer.tokenizer import Tokenizer
from anaphora.types import Namespace, RequestId

BLOCK_SIZES = (1, 16, 64)
SESSIONS_AT_ONCE = 8
NUM_CODING_REQUESTS = 120
NUM_LOOKUPS = 30
NAMESPACE = Namespace("")
TOOL_GROUPS = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "TwitterAPI": "posting_api",
    "VehicleControlAPI": "vehicle_control",
}
Prompts = list["array[int]"]
Messages = list[dict[str, str]]


def lines_of(path: Path) -> Iterator[Any]:
    """The objects of a JSONL file, gzipped or not."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        yield from map(json.loads, file)


def interleave(sessions: Iterable[list[Messages]]) -> Iterator[Messages]:
    """Eight sessions at a time, turn by turn."""
    waiting = list(sessions)
    while waiting:
        active, waiting = waiting[:SESSIONS_AT_ONCE], waiting[SESSIONS_AT_ONCE:]
        for turn in range(max(map(len, active))):
            yield from (session[turn] for session in active if turn < len(session))


def agent_dialogues(data: Path) -> Iterator[list[Messages]]:
    """Coding agents with all that was said: one request before each answer of the model."""
    for dialogue in lines_of(data / "prompts" / "swe_agent_dialogues.jsonl.gz"):
        messages = [{"role": one["role"], "content": one["content"] or ""} for one in dialogue["messages"]]
        yield [messages[:end] for end, one in enumerate(messages) if one["role"] == "assistant"]


def tool_users(data: Path) -> Iterator[list[Messages]]:
    """Conversations over the tool definitions that they need, in the order of their classes; the user's turns alone."""
    tools: dict[str, Any] = json.loads((data / "prompts" / "bfcl_tool_definitions.json").read_text())
    for entry in lines_of(data / "prompts" / "bfcl_multi_turn.jsonl"):
        chosen = [tools[TOOL_GROUPS[name]] for name in sorted(entry["involved_classes"])]
        messages = [{"role": "system", "content": f"You may call these tools:\n{json.dumps(chosen)}"}]
        requests: list[Messages] = []
        for turn in entry["turns"]:
            messages = [*messages, *turn]
            requests.append(messages)
        yield requests


def tokenised(tokenizer: Tokenizer, requests: Iterable[Messages]) -> Prompts:
    """Through the real chat template."""
    return [array("I", tokenizer.encode_chat(messages)) for messages in requests]


def coding_sessions(data: Path) -> Prompts:
    """The first requests of the recorded sessions, each block with 64 tokens of its own."""
    prompts: Prompts = []
    for number, session in enumerate(lines_of(data / "claude_code_sessions.jsonl.gz")):
        blocks: dict[int, array[int]] = {}
        size = session["block_size"]
        for request in session["requests"]:
            if "hash_ids" not in request:
                continue
            prompt = array("I")
            for block_id in request["hash_ids"]:
                if block_id not in blocks:
                    rng = random.Random(f"{number} {block_id}")
                    blocks[block_id] = array("I", [rng.randrange(50_000) for _ in range(size)])
                prompt += blocks[block_id]
            rest = request["in"] - len(prompt)
            prompts.append(prompt + array("I", [60_000 + len(prompts)] * max(rest, 0)))
            if len(prompts) == NUM_CODING_REQUESTS:
                return prompts
    return prompts


def num_distinct_tokens(prompts: Prompts) -> int:
    """Tokens that a tree of all prompts has."""
    total, previous = 0, b""
    for prompt in sorted(one.tobytes() for one in prompts):
        common = next((i for i, (a, b) in enumerate(zip(prompt, previous, strict=False)) if a != b), None)
        common = min(len(prompt), len(previous)) if common is None else common
        total += len(prompt) // 4 - common // 4
        previous = prompt
    return total


def new_manager(prompts: Prompts, block_size: int, num_tokens: int) -> KVCacheManager:
    """An empty cache with room for ``num_tokens`` tokens, and in any case for the longest prompt."""
    num_blocks = max(num_tokens, max(map(len, prompts)) + block_size) // block_size + 1
    return KVCacheManager(CacheConfig(num_blocks=num_blocks, block_size=block_size, eviction_policy="lru"))


def serve(manager: KVCacheManager, prompts: Prompts) -> tuple[int, dict[str, float]]:
    """All prompts, one after the other: the cached tokens, and the seconds that each part of the work took."""
    num_cached, times = 0, dict.fromkeys(("pack", "match", "admit_commit_free"), 0.0)
    for number, prompt in enumerate(prompts):
        start_s = time.thread_time()
        tokens = TokenBlocks(prompt, manager.config.block_size)
        packed_s = time.thread_time()
        match = manager.match(NAMESPACE, tokens)
        matched_s = time.thread_time()
        name = RequestId(str(number))
        assert manager.admit(name, match, len(prompt), step=number) is not None
        manager.commit(name, len(prompt))
        manager.free(name)
        num_cached += match.num_cached_tokens
        times["pack"] += packed_s - start_s
        times["match"] += matched_s - packed_s
        times["admit_commit_free"] += time.thread_time() - matched_s
    return num_cached, times


def index_bytes(prompts: Prompts, block_size: int, num_tokens: int) -> int:
    """What Python has allocated for a cache and all in it, its pool included."""
    tracemalloc.start()
    manager = new_manager(prompts, block_size, num_tokens)
    serve(manager, prompts)
    gc.collect()
    allocated, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert manager.tables == {}
    return allocated


def replay(prompts: Prompts, block_size: int, num_tokens: int) -> dict[str, Any]:
    """All prompts through one cache with room for ``num_tokens`` tokens: once for the times, once for the memory."""
    manager = new_manager(prompts, block_size, num_tokens)
    num_cached, times = serve(manager, prompts)
    longest = max(prompts, key=len)
    num_held = (manager.stats.num_stored_blocks - manager.stats.num_evicted_blocks) * block_size
    num_bytes = index_bytes(prompts, block_size, num_tokens)
    return {
        "block_size": block_size,
        "capacity_blocks": manager.config.num_blocks,
        "cached_tokens": num_cached,
        "token_hit_rate": round(num_cached / sum(map(len, prompts)), 5),
        "held_tokens": num_held,
        "evicted_blocks": manager.stats.num_evicted_blocks,
        "index_mib": round(num_bytes / 2**20, 2),
        "index_bytes_per_held_token": round(num_bytes / max(num_held, 1), 1),
        "mean_ms_per_request": {name: round(1000 * total / len(prompts), 3) for name, total in times.items()},
        "longest_prompt_tokens": len(longest),
        "longest_lookup_ms": lookup_ms(manager, longest, block_size),
    }


def lookup_ms(manager: KVCacheManager, prompt: "array[int]", block_size: int) -> dict[str, float]:
    """The median time to look up a prompt of which all is cached that has stayed; and how much that was."""
    tokens = TokenBlocks(prompt, block_size)
    times = []
    for _ in range(NUM_LOOKUPS):
        start_s = time.thread_time()
        match = manager.match(NAMESPACE, tokens)
        times.append(time.thread_time() - start_s)
    return {"median": round(1000 * statistics.median(times), 4), "cached_tokens": match.num_cached_tokens}


def compare(prompts: Prompts) -> dict[str, Any]:
    """All block sizes and capacities on one trace, each in a fresh process."""
    num_distinct = num_distinct_tokens(prompts)
    context = multiprocessing.get_context("spawn")
    runs = []
    for room, num_tokens in (("all", 2 * num_distinct), ("a quarter", num_distinct // 4)):
        for block_size in BLOCK_SIZES:
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                run = pool.submit(replay, prompts, block_size, num_tokens).result()
            runs.append({"room": room, **run})
    return {
        "num_requests": len(prompts),
        "num_prompt_tokens": sum(map(len, prompts)),
        "num_distinct_tokens": num_distinct,
        "runs": runs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a model folder")
    parser.add_argument("--data", type=Path, required=True, help="the folder with the prompts")
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    options = parser.parse_args()
    tokenizer = Tokenizer.from_folder(options.model)
    traces = {
        "agent dialogues": tokenised(tokenizer, interleave(agent_dialogues(options.data))),
        "tool users": tokenised(tokenizer, interleave(tool_users(options.data))),
        "coding sessions, tokens made up": coding_sessions(options.data),
    }
    results = {
        "hardware": describe_hardware(),
        "python": platform.python_version(),
        "tokenizer": options.model.name,
        "traces": {name: compare(prompts) for name, prompts in traces.items()},
    }
    text = json.dumps(results, indent=2)
    print(text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()

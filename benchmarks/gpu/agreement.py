"""Whether the GPU computes the model that it should, cold and behind a cached prefix.

    python -m benchmarks.gpu.agreement OUT.json [--model SmolLM2.gguf]

Tiny random models of every architecture, in float32 and bfloat16: the logits of every position of random prompts
against transformers' in float32 on the CPU. With ``--model``, a model with real weights in bfloat16: how often its
likeliest token is the one that our float32 engine chooses on the CPU, given the same text before it (that engine equals
transformers token for token), and what it says when chats are asked cold, and again behind what is cached. Logits of a
last position alone, whose last layer is computed for few rows, are compared as well.
"""

import argparse
import json
import random
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from tests.models_for_tests import ARCHITECTURES, tiny_checkpoint
from transformers import AutoModelForCausalLM

from anaphora import LLM
from anaphora.checkpoints.config_reader import read_model_config
from anaphora.engine.gpu.flat_batch import flatten
from anaphora.engine.gpu.launcher import compute
from anaphora.engine.input_batch import Chunk
from anaphora.engine.sampling_params import SamplingParams
from anaphora.models.device.loader import load_device_model
from anaphora.types import RequestId

BLOCK_SIZE, LENGTH, CHUNKS = 16, 300, (0, 7, 90, 91, 300)
"""Tokens a block and a prompt, and where the prompt is cut: behind each cut, what was before is cached."""
OUTPUT, LONG = 48, 1200
"""Tokens of an answer; of a prompt that attention takes as a long one."""
QUESTIONS = (
    "What is the capital of France?",
    "Name three colours of the rainbow.",
    "Why is the sky blue? Answer in two sentences.",
    "Write a short poem about the sea.",
    "How do I boil an egg?",
    "Translate 'good morning' into Spanish.",
    "What is 12 plus 30?",
    "Explain what a computer is to a child.",
)
SYSTEM = "You are a helpful assistant. You answer briefly, truthfully and in plain words. " * 8


def tiny(name: Any, dtype: torch.dtype) -> dict[str, Any]:
    """Relative error of all logits, and how often the likeliest token is the same."""
    with tempfile.TemporaryDirectory() as folder:
        path = tiny_checkpoint(Path(folder) / name, name)
        config = read_model_config(path)
        oracle = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        device = torch.device("cuda", 0)
        model = load_device_model(
            path, config, dtype=dtype, device=device, block_size=BLOCK_SIZE, max_logits_rows=LENGTH
        )
    rng = random.Random(7)
    token_ids = [rng.randrange(config.vocab_size) for _ in range(LENGTH)]
    with torch.inference_mode():
        wanted = oracle(torch.tensor([token_ids]), use_cache=False).logits[0].double()
        kv = model.new_kv_cache(LENGTH // BLOCK_SIZE + 1, BLOCK_SIZE)
        table = tuple(rng.sample(range(LENGTH // BLOCK_SIZE + 1), LENGTH // BLOCK_SIZE + 1))
        sampled = torch.zeros(LENGTH, dtype=torch.int32, device=device)
        parts = []
        for start, end in pairwise(CHUNKS):
            chunk = Chunk(RequestId("a"), tuple(token_ids[start:end]), start, table, range(start, end), samples=True)
            batch = flatten([chunk], BLOCK_SIZE)
            parts.append(compute(model, kv, batch, model.attention.plan_spans(batch.spans), sampled).double().cpu())
        last = flatten([chunk._replace(logits_positions=range(LENGTH - 1, LENGTH))], BLOCK_SIZE)
        alone = compute(model, kv, last, model.attention.plan_spans(last.spans), sampled)[0].double().cpu()
    found = torch.cat(parts)
    return {
        "model": name,
        "dtype": str(dtype).removeprefix("torch."),
        "relative_error": float((found - wanted).norm() / wanted.norm()),
        "relative_error_of_a_row_alone": float((alone - wanted[-1]).norm() / wanted[-1].norm()),
        "top_1_agreement": float((found.argmax(-1) == wanted.argmax(-1)).double().mean()),
    }


def real(model: str) -> dict[str, Any]:
    """A model with real weights: agreement with float32 on the CPU, and texts cold and hit."""
    chats = [[{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}] for question in QUESTIONS]
    params = SamplingParams(max_tokens=OUTPUT, temperature=0.0)
    with LLM(model, device="cpu") as llm:
        references = llm.chat(chats, params)
    options = {"device": "cuda", "dtype": "bfloat16", "num_gpu_blocks_override": 2000}
    with LLM(model, **options) as llm:
        cold = [llm.chat(chat, params, namespace=f"alone {index}")[0] for index, chat in enumerate(chats)]
        first, *_ = llm.chat(chats[0], params)
        hit = [first, *llm.chat(chats[1:], params)]
        again = llm.chat(chats, params)
        long = [token_id for result in references for token_id in result.prompt_token_ids][:LONG]
        (one_row,) = llm.generate([long], SamplingParams(max_tokens=1, temperature=0.0), namespace="one row")
        all_rows = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=1)
        (every_row,) = llm.generate([long], all_rows, namespace="every row")
        forced = llm.generate(
            [result.prompt_token_ids + result.token_ids for result in references],
            SamplingParams(max_tokens=1, prompt_logprobs=1, temperature=0.0),
        )
    agreements = [
        [entry is not None and entry.token.rank == 1 for entry in (judged.prompt_logprobs or ())][-len(r.token_ids) :]
        for judged, r in zip(forced, references, strict=True)
    ]
    flat = [agrees for row in agreements for agrees in row]
    return {
        "model": Path(model).name,
        "tokens": len(flat),
        "top_1_agreement": sum(flat) / len(flat),
        "long_prompt": {"tokens": len(long), "one_row": one_row.token_ids, "every_row": every_row.token_ids},
        "cached_tokens": {
            "cold": [r.usage.num_cached_tokens for r in cold],
            "hit": [r.usage.num_cached_tokens for r in again],
        },
        "texts": [
            {"question": q, "cpu_float32": r.text, "cold": c.text, "hit": h.text, "again": a.text}
            for q, r, c, h, a in zip(QUESTIONS, references, cold, hit, again, strict=True)
        ],
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model")
    options = parser.parse_args()
    found: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "tiny": []}
    for name in ARCHITECTURES:
        for dtype in (torch.float32, torch.bfloat16):
            found["tiny"].append(tiny(name, dtype))
            print(found["tiny"][-1], flush=True)
    if options.model is not None:
        found["real"] = real(options.model)
        print(json.dumps(found["real"], indent=1), flush=True)
    options.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

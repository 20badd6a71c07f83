"""The host's work of one hit, stage by stage, each timed by itself in one thread.

    python -m benchmarks.serving.host_path MODEL_FOLDER --out benchmarks/results/serving/host_path.json

What a server does with a chat whose prefix is cached, one stage after another, with our own parts and a model that
answers at once. Left out: the network, the event loop and what moving between threads costs. ``engine`` marks the
stages that are serial in the engine's own loop whoever does the rest; the others can be done by front ends.
Medians, and the least beside them: other work on the machine only adds.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.gpu.serving.prompts import Texts
from benchmarks.serving.instant import MAX_MODEL_LEN, MODEL_NAME, instant_core
from pydantic_core import to_json

from anaphora.engine import GenerationRequest
from anaphora.engine.engine_core import EngineCore
from anaphora.engine.output_processor import OutputProcessor
from anaphora.engine.remote.messages import Add, Output, Outputs, decode_to_caller, decode_to_engine, encode
from anaphora.engine.request import check_request, compact
from anaphora.lab import environment
from anaphora.protocol.openai import ChatCompletionRequest
from anaphora.protocol.parsing import parse
from anaphora.protocol.sse import encode_event
from anaphora.server.chat import ChatFormat
from anaphora.server.sampling import chat_params
from anaphora.tokenizer.tokenizer import Tokenizer
from anaphora.types import Namespace, RequestId

if TYPE_CHECKING:
    from anaphora.engine.core_output import CoreOutput

LENGTHS = (4096, 30_000)
ROUNDS = 60
WARM_UPS = 10
NEW_TEXTS = 10
AIMS_MS = {4096: 1.2, 30_000: 2.5}
NAMESPACE = Namespace("")
IN_ENGINE = ("add", "lookup and schedule", "update", "outputs of the step")


class Stages:
    """Milliseconds of one request by stage."""

    def __init__(self) -> None:
        self.ms: dict[str, float] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Time what is done within."""
        started_ns = time.perf_counter_ns()
        yield
        self.ms[name] = (time.perf_counter_ns() - started_ns) / 1e6


def body(shared: str, question: str) -> bytes:
    """A streaming chat, all but the question shared."""
    messages = [{"role": "system", "content": shared}, {"role": "user", "content": question}]
    return json.dumps({"model": MODEL_NAME, "messages": messages, "max_tokens": 1, "stream": True}).encode()


def serve(data: bytes, number: int, tokenizer: Tokenizer, core: EngineCore) -> tuple[dict[str, float], int]:
    """One request through all stages; their times, and how many tokens were cached."""
    stages, request_id = Stages(), RequestId(f"chatcmpl-{number}")
    with stages.of("parse the body"):
        asked = parse(ChatCompletionRequest, data)
        asked.check()
    with stages.of("render the template"):
        text = tokenizer.apply_chat_template([message.for_template() for message in asked.messages])
    with stages.of("tokenize"):
        ids = tokenizer.encode_rendered(text, NAMESPACE)
    with stages.of("make and check the request"):
        params = chat_params(asked, room=MAX_MODEL_LEN - len(ids), sample=0)
        request = compact(GenerationRequest(request_id=request_id, prompt_token_ids=ids, params=params))
        check_request(request, max_model_len=MAX_MODEL_LEN, vocab_size=tokenizer.vocab_size)
        processor = OutputProcessor(request, tokenizer, arrived_s=0.0)
        form = ChatFormat(asked, request_id, MODEL_NAME, tokenizer)
    with stages.of("channel: request out"):
        frame = encode(Add.of(request))
    with stages.of("channel: request in"):
        message = decode_to_engine(memoryview(frame))
        assert isinstance(message, Add)
        request = message.request()
    outputs = _in_engine(core, request, stages)
    with stages.of("channel: outputs out"):
        frame = encode(Outputs([Output.of(output, with_ledger=True) for output in outputs]))
    with stages.of("channel: outputs in"):
        back = decode_to_caller(memoryview(frame))
        assert isinstance(back, Outputs)
        [output] = [item.core_output() for item in back.outputs]
    with stages.of("detokenize"):
        shown = processor.process(output)
    with stages.of("encode the event"):
        encode_event(to_json(form.chunk(0, shown)))
    return stages.ms, shown.usage.num_cached_tokens


def _in_engine(core: EngineCore, request: GenerationRequest, stages: Stages) -> Any:
    """What the engine's loop does: one step, its parts timed where they are called."""
    with stages.of("add"):
        core.add(request)
    with (
        _timed(core.scheduler, "schedule", "lookup and schedule", stages),
        _timed(core.scheduler, "update", "update", stages),
    ):
        outputs: list[CoreOutput] | None = []
        while outputs == []:  # more than once for the first, which computes the prefix
            started_ns = time.perf_counter_ns()
            outputs = core.step()
        whole = (time.perf_counter_ns() - started_ns) / 1e6
    core.stats()
    stages.ms["outputs of the step"] = max(0.0, whole - stages.ms["lookup and schedule"] - stages.ms["update"])
    return outputs


@contextmanager
def _timed(owner: Any, method: str, stage: str, stages: Stages) -> Iterator[None]:
    own: Callable[..., Any] = getattr(owner, method)

    def timed(*args: Any) -> Any:
        with stages.of(stage):
            return own(*args)

    setattr(owner, method, timed)
    try:
        yield
    finally:
        delattr(owner, method)


def measure(length: int, texts: Texts, tokenizer: Tokenizer, rounds: int) -> dict[str, Any]:
    """Medians and least times of a length."""
    core, shared = instant_core(tokenizer), texts.text(length, "shared")
    serve(body(shared, texts.question("first")), 0, tokenizer, core)
    samples = []
    for number in range(1, WARM_UPS + rounds + 1):
        times, num_cached = serve(body(shared, texts.question(f"question {number}")), number, tokenizer, core)
        assert num_cached > length - 32, f"only {num_cached} of {length} tokens were cached"
        samples.append(times)
    samples = samples[WARM_UPS:]
    stages = [
        {
            "stage": name,
            "engine": name in IN_ENGINE,
            "median_ms": round(statistics.median(s[name] for s in samples), 4),
            "least_ms": round(min(s[name] for s in samples), 4),
        }
        for name in samples[0]
    ]
    return {
        "length": length,
        "aim_ms": AIMS_MS[length],
        **_totals(samples),
        "tokenize_new_ms": _tokenize_new(length, texts, tokenizer),
        "stages": stages,
    }


def _tokenize_new(length: int, texts: Texts, tokenizer: Tokenizer) -> float:
    """Tokenizing a chat none of whose messages was seen before: the median."""
    times = []
    for number in range(NEW_TEXTS):
        messages = [{"role": "user", "content": texts.text(length, f"new {number}")}]
        text = tokenizer.apply_chat_template(messages)
        started_ns = time.perf_counter_ns()
        tokenizer.encode_rendered(text, NAMESPACE)
        times.append((time.perf_counter_ns() - started_ns) / 1e6)
    return round(statistics.median(times), 4)


def _totals(samples: list[dict[str, float]]) -> dict[str, float]:
    """Of one process (no channel), and of the engine's loop alone."""
    alone = [sum(ms for name, ms in s.items() if not name.startswith("channel")) for s in samples]
    engine = [sum(s[name] for name in IN_ENGINE) for s in samples]
    return {
        "total_median_ms": round(statistics.median(alone), 4),
        "total_least_ms": round(min(alone), 4),
        "engine_median_ms": round(statistics.median(engine), 4),
        "engine_least_ms": round(min(engine), 4),
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder with a tokenizer that has a chat template")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--note", help="what else the machine did, to be kept with the results")
    options = parser.parse_args()
    texts, tokenizer = Texts(options.model), Tokenizer.from_folder(options.model)
    record = {
        "command": "python -m benchmarks.serving.host_path MODEL_FOLDER",
        "tokenizer": options.model.name,
        "python": platform.python_version(),
        "processor": environment.describe()["processor"],
        "rounds": options.rounds,
        **({} if options.note is None else {"note": options.note}),
        "lengths": [measure(length, texts, tokenizer, options.rounds) for length in LENGTHS],
    }
    for found in record["lengths"]:
        print(json.dumps(found, indent=1))
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

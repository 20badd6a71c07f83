"""Every setting of ``anaphora serve``, once: the flags, the YAML keys and their checks all come from this class."""

from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from annotated_types import Ge, Interval, MinLen

from anaphora.kvcache.config import DEFAULT_MAX_PINNED_SHARE
from anaphora.kvcache.eviction import DEFAULT_POLICY, EVICTION_POLICIES

Panel = Literal["Model", "KV cache", "Scheduler", "Server"]


@dataclass(frozen=True, slots=True)
class Flag:
    """How a setting shows on the command line; what its value may be is said by the annotation around it.

    ``metavar``: what stands for the value in the help; empty for switches. ``default``: what the help says where the
    value's own text would say little. ``is_size``: bytes, which may be written with a unit, such as ``1GiB``.
    """

    panel: Panel
    help: str
    metavar: str = ""
    default: str = ""
    is_size: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """What ``anaphora serve`` was told, by defaults, a YAML file and the command line together."""

    model: Annotated[
        str | None, Flag("Model", "A model folder, a .gguf file or a hub name; without one, SmolLM2-135M-Instruct.")
    ] = None
    served_model_name: Annotated[
        tuple[str, ...],
        Flag("Model", "Name for requests to use; give it again for more names.", "NAME", "MODEL as given"),
    ] = ()
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        Flag("Model", "Number format of weights and KV; auto is float32 on CPU, as stored on a GPU.", "NAME"),
    ] = "auto"
    device: Annotated[
        Literal["auto", "cpu", "cuda"], Flag("Model", "Where the model runs; auto: on a GPU if there is one.", "NAME")
    ] = "auto"
    load_format: Annotated[
        Literal["auto", "dummy"], Flag("Model", "dummy: random weights, no weight file is read.", "NAME")
    ] = "auto"
    num_threads: Annotated[
        int | None, Interval(ge=1, le=1024), Flag("Model", "Threads of one matrix product.", "INT", "the usable cores")
    ] = None
    seed: Annotated[
        int,
        Interval(ge=-(2**63), le=2**63 - 1),
        Flag("Model", "Where the randomness of requests without a seed begins.", "INT"),
    ] = 0
    max_model_len: Annotated[
        int | None,
        Ge(1),
        Flag("Model", "Tokens of prompt and output together.", "TOKENS", "the model's context, or what the KV holds"),
    ] = None
    enforce_eager: Annotated[bool, Flag("Model", "On a GPU: no captured graphs; slower small steps, less memory.")] = (
        False
    )
    deterministic: Annotated[
        bool, Flag("Model", "On a GPU: a request's results do not depend on what it is batched with, to the bit.")
    ] = False
    enable_prefix_caching: Annotated[
        bool, Flag("KV cache", "Reuse the KV of beginnings that were computed before.")
    ] = True
    block_size: Annotated[int, Ge(1), Flag("KV cache", "Tokens per block, the unit of reuse.", "TOKENS")] = 16
    kv_cache_memory_bytes: Annotated[
        int | None,
        Ge(1),
        Flag(
            "KV cache",
            "Memory for keys and values, such as 2GiB.",
            "SIZE",
            "1GiB on CPU; on a GPU what gpu_memory_utilization leaves",
            is_size=True,
        ),
    ] = None
    num_gpu_blocks_override: Annotated[
        int | None, Ge(1), Flag("KV cache", "So many blocks, whatever the memory says.", "BLOCKS", "from the memory")
    ] = None
    gpu_memory_utilization: Annotated[
        float | None,
        Interval(gt=0, le=1),
        Flag(
            "KV cache",
            "Share of a GPU's memory for weights, activations and KV together; ignored on CPU.",
            "SHARE",
            "0.9",
        ),
    ] = None
    eviction_policy: Annotated[str, Flag("KV cache", "Which cached blocks go first when room is needed.", "NAME")] = (
        DEFAULT_POLICY
    )
    max_pinned_share: Annotated[
        float, Interval(ge=0, le=1), Flag("KV cache", "Share of the blocks that pins may hold together.", "SHARE")
    ] = DEFAULT_MAX_PINNED_SHARE
    max_num_seqs: Annotated[int, Ge(1), Flag("Scheduler", "Requests that run at the same time.", "REQUESTS")] = 256
    max_num_batched_tokens: Annotated[
        int | None,
        Ge(1),
        Flag("Scheduler", "Token budget of one step.", "TOKENS", "2048; 8192 on a GPU with 70 GiB or more"),
    ] = None
    target_prefill_tokens: Annotated[
        int,
        Ge(0),
        Flag(
            "Scheduler",
            "Nobody joins a step that computes so many prompt tokens: first tokens come sooner. 0: any may.",
            "TOKENS",
        ),
    ] = 512
    enable_chunked_prefill: Annotated[bool, Flag("Scheduler", "Compute a long prompt over several steps.")] = True
    max_waiting_requests: Annotated[
        int, Ge(1), Flag("Scheduler", "Requests that may wait; more are answered 503.", "REQUESTS")
    ] = 1024
    host: Annotated[str, MinLen(1), Flag("Server", "Address to listen on.", "HOST")] = "127.0.0.1"
    port: Annotated[int, Interval(ge=0, le=65535), Flag("Server", "Port to listen on; 0 takes a free one.", "PORT")] = (
        8000
    )
    api_key: Annotated[
        tuple[str, ...],
        Flag(
            "Server", "Key that clients must send, one per tenant; better: $ANAPHORA_API_KEY.", "KEY", "no key needed"
        ),
    ] = ()
    api_key_file: Annotated[str | None, Flag("Server", "File with one API key a line.", "FILE")] = None
    admin_key: Annotated[
        str | None,
        Flag(
            "Server",
            "Key for /metrics and the operator's routes; better: $ANAPHORA_ADMIN_KEY.",
            "KEY",
            "those answer on this machine only",
        ),
    ] = None
    admin_key_file: Annotated[str | None, Flag("Server", "File with the admin key.", "FILE")] = None
    public_metrics: Annotated[bool, Flag("Server", "Let everybody read /metrics.")] = False
    max_body_bytes: Annotated[int, Ge(1), Flag("Server", "Longest request body.", "SIZE", "16MiB", is_size=True)] = (
        16 * 2**20
    )
    max_choices: Annotated[
        int, Ge(1), Flag("Server", "Most answers of one request: its prompts times n.", "CHOICES")
    ] = 128
    api_server_count: Annotated[
        int,
        Interval(ge=0, le=64),
        Flag(
            "Server",
            "Processes for HTTP and tokenising beside the engine; 0 does all in one.",
            "PROCESSES",
        ),
    ] = 0
    access_log: Annotated[bool, Flag("Server", "Log a line per request.")] = True
    request_log: Annotated[
        str | None,
        Flag("Server", "File to log requests to, for `anaphora simulate`; prompts as block digests.", "FILE", "none"),
    ] = None
    request_log_content: Annotated[
        Literal["digests", "token-ids"],
        Flag("Server", "token-ids: the request log holds the prompts and answers themselves.", "NAME"),
    ] = "digests"
    drain_seconds: Annotated[
        float,
        Interval(ge=0, le=86_400),
        Flag("Server", "How long running requests may go on after SIGTERM.", "SECONDS"),
    ] = 30.0


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of :class:`ServeSettings` as the command line and the YAML reader need it."""

    name: str
    hint: Any
    flag: Flag
    default: Any

    @property
    def option(self) -> str:
        """The flag: ``--max-model-len``."""
        return "--" + self.name.replace("_", "-")

    @property
    def choices(self) -> tuple[str, ...]:
        """All that the value may be, if these are few."""
        if self.name == "eviction_policy":
            return tuple(EVICTION_POLICIES)
        return get_args(self.hint.__origin__) if get_origin(self.hint.__origin__) is Literal else ()

    @property
    def is_switch(self) -> bool:
        """On or off, with a ``--no-`` flag beside it."""
        return self.hint.__origin__ is bool

    @property
    def is_many(self) -> bool:
        """May be given several times."""
        return isinstance(self.default, tuple)


@cache
def serve_settings() -> dict[str, Setting]:
    """All settings by name, in the order of the help."""
    hints = get_type_hints(ServeSettings, include_extras=True)
    return {
        field.name: Setting(field.name, hints[field.name], hints[field.name].__metadata__[-1], field.default)
        for field in fields(ServeSettings)
    }

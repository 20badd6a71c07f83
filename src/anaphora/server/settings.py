"""The server's own settings, as one frozen value. What the engine needs is in ``EngineConfig``."""

import secrets
from dataclasses import dataclass, field

DEFAULT_MAX_BODY_BYTES = 16 * 2**20
DEFAULT_MAX_CHOICES = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Who may ask what, and how much at once."""

    served_model_names: tuple[str, ...]
    """Names that requests may use; metrics carry the first."""
    api_keys: tuple[str, ...] = ()
    """One tenant each. Empty: no key is needed, and all requests are of the default tenant."""
    admin_key: str | None = None
    """Bearer token for the operator's routes and ``/metrics``. ``None``: those answer on loopback only."""
    public_metrics: bool = False
    """``/metrics`` answers everybody."""
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    max_choices: int = DEFAULT_MAX_CHOICES
    """Prompts times ``n`` of one HTTP request."""
    tenant_secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """Of one start of the server: with it, salts have names that tell nothing of them (:mod:`.tenants`)."""

    def __post_init__(self) -> None:
        assert self.served_model_names
        assert "" not in self.api_keys
        assert self.admin_key != ""

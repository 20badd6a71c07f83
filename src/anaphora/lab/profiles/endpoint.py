"""From what a person says after ``--target`` to an address with its key: a profile's name or a URL."""

import difflib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anaphora.errors import ConfigError
from anaphora.lab.address import BaseUrl
from anaphora.lab.clock import Clock
from anaphora.lab.dialects import Dialect, dialect_named
from anaphora.lab.money import Prices
from anaphora.lab.profiles.profile import Profile
from anaphora.lab.profiles.store import ProfileStore
from anaphora.lab.targets.openai import OpenAITarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where requests go and with what. The key and the headers' values are in no text that is made of this."""

    base: BaseUrl
    profile: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    dialect: Dialect | None = None
    prices: Prices | None = None
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def target(self, *, clock: Clock = time.monotonic_ns, request_timeout_s: float = 600.0) -> OpenAITarget:
        """A client for it; its model is still to be chosen."""
        return OpenAITarget(
            self.base,
            clock=clock,
            api_key=self.api_key,
            api_key_env=self.api_key_env,
            headers=self.headers,
            dialect=self.dialect,
            request_timeout_s=request_timeout_s,
        )


def endpoint_of(
    target: str,
    *,
    model: str | None = None,
    api_key_env: str | None = None,
    kind: str | None = None,
    store: ProfileStore | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Endpoint:
    """``model``, ``api_key_env`` and ``kind`` come before what a profile says.

    Raises:
        ConfigError: no such profile, no base URL, or a variable that is named is not set.
    """
    profile = _profile(target, store or ProfileStore())
    if profile is None:
        profile, name = Profile(name="url", base_url=target, api_key_env=api_key_env), None
    else:
        name = profile.name
    said: dict[str, Any] = {"model": model, "api_key_env": api_key_env, "kind": kind}
    profile = replace(profile, **{key: value for key, value in said.items() if value is not None})
    url = environment.get(profile.base_url_env or "") or profile.base_url
    return Endpoint(
        base=BaseUrl.parse(url),
        profile=name,
        model=profile.model,
        api_key_env=profile.api_key_env,
        dialect=None if profile.kind is None else dialect_named(profile.kind),
        prices=profile.prices,
        api_key=None if profile.api_key_env is None else _variable(profile.api_key_env, environment),
        headers={
            header: _variable(value[1:], environment) if value.startswith("$") else value
            for header, value in profile.headers.items()
        },
    )


def _profile(target: str, store: ProfileStore) -> Profile | None:
    """The profile of that name; ``None`` if it looks like an address instead."""
    if any(mark in target for mark in ":/") or target == "localhost":
        return None
    profiles = store.all()
    if target in profiles:
        return profiles[target]
    if "." in target:
        return None
    near = difflib.get_close_matches(target, profiles, 1, 0.65)
    hint = f"did you mean {near[0]}?" if near else "`anaphora profile list` shows them; a URL has http:// in front"
    raise ConfigError(f"no profile is called {target!r}: {hint}")


def _variable(name: str, environment: Mapping[str, str]) -> str:
    value = environment.get(name, "").strip()
    if not value:
        state = "empty" if name in environment else "not set"
        raise ConfigError(f"the environment variable {name} is {state}: it should hold the key")
    return value

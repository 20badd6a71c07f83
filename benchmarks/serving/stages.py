"""Where a thread's time goes: methods are wrapped, and each is charged what it does not spend in another."""

import functools
import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Place = tuple[str, str, str]
"""Stage, module, and what in it: ``function`` or ``Class.method``. Several may belong to one stage."""


class Stages:
    """Nanoseconds by stage since the last :meth:`take`; one thread's."""

    def __init__(self) -> None:
        self._ns: dict[str, int] = {}
        self._open: list[str] = []
        self._since_ns = 0

    @contextmanager
    def on(self, places: tuple[Place, ...]) -> Iterator[None]:
        """Wrap what is at ``places``; what the code at hand does not have is left out."""
        undo: list[tuple[Any, str, Any]] = []
        for stage, module, path in places:
            owner: Any = importlib.import_module(module)
            *outer, name = path.split(".")
            for part in outer:
                owner = getattr(owner, part)
            if hasattr(owner, name):
                undo.append((owner, name, getattr(owner, name)))
                setattr(owner, name, self._wrapped(stage, getattr(owner, name)))
        try:
            yield
        finally:
            for owner, name, own in undo:
                setattr(owner, name, own)

    def take(self) -> dict[str, int]:
        """The times so far; from now on they are counted anew."""
        taken, self._ns = self._ns, {}
        return taken

    def _wrapped(self, stage: str, own: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(own)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._switch()
            self._open.append(stage)
            try:
                return own(*args, **kwargs)
            finally:
                self._switch()
                self._open.pop()

        return timed

    def _switch(self) -> None:
        """Charge the innermost open stage with the time since the last switch."""
        now_ns = time.perf_counter_ns()
        if self._open:
            stage = self._open[-1]
            self._ns[stage] = self._ns.get(stage, 0) + now_ns - self._since_ns
        self._since_ns = now_ns

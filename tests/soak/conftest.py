"""The soak's engines are audited after every step, as those of the quick tests are."""

from tests.engine.conftest import audited_steps

__all__ = ["audited_steps"]

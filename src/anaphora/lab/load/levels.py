"""Levels of a load in words."""


def level_name(loop: str, level: float) -> str:
    """One level, for people."""
    return {"closed": f"concurrency {level:g}", "open": f"{level:g} requests/s", "replay": f"speed ×{level:g}"}[loop]

"""Whom the lab measures. ``base`` is the seam, ``openai`` the generic target, ``managed`` a server that we start and
stop."""

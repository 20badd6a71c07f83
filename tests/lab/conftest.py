"""Reports are made in many of these tests, and looked at in few."""

from tests.pictures import stand_ins

__all__ = ["stand_ins"]

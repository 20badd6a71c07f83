"""How servers differ in naming things: one row a kind of server, as data, and the way to tell which kind one is."""

from anaphora.lab.dialects.detect import dialect_named, kind_of
from anaphora.lab.dialects.row import CounterFamily, Dialect, Evidence, Reset
from anaphora.lab.dialects.table import DIALECTS, OTHER, OURS

__all__ = ["DIALECTS", "OTHER", "OURS", "CounterFamily", "Dialect", "Evidence", "Reset", "dialect_named", "kind_of"]

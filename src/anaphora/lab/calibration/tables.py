"""What a calibration found, as a table."""

from collections.abc import Sequence

from anaphora.lab.calibration.calibrate import LIMIT_MS, ClientError
from anaphora.report.tables import Table

_NOTE = (
    "The client's stamp minus the server's clock read immediately before the send, in milliseconds: positive is late.\n"
    "All streams of a row were started together and ran at once; an event is one of the 40 chunks of a stream."
)
_LATE = (
    "With {streams} streams the 99th percentile is not to be trusted: events were read together with later ones, and "
    "of those only the last one's arrival is known. The machine is too busy for so many: let it rest, ask for fewer, "
    "or, as root on Linux, put `chrt -f 5` in front of the command, which then runs as soon as something arrives."
)
_SLOW = (
    "With {streams} streams even the median is more than {limit:g} ms late: one process cannot time so many truly "
    "here. `anaphora bench load` spreads as many over several processes, or refuses them."
)


def doubts(found: Sequence[ClientError]) -> list[str]:
    """What must not be believed of these figures, and why."""
    late = [row for row in found if not row.event_error_ms.tail_is_true]
    slow = [row for row in found if row.ttft_error_ms.median > LIMIT_MS]
    return [
        text.format(streams=" and ".join(str(row.num_streams) for row in rows), limit=LIMIT_MS)
        for rows, text in ((late, _LATE), (slow, _SLOW))
        if rows
    ]


def client_error_table(found: Sequence[ClientError]) -> Table:
    """One row for each number of streams."""
    rows = tuple(
        (
            str(row.num_streams),
            f"{row.ttft_error_ms.median:.3f}",
            f"{row.ttft_error_ms.p99:.3f}",
            f"{row.event_error_ms.median:.3f}",
            f"{row.event_error_ms.p99:.3f}",
            f"{row.event_error_ms.num_samples}",
            f"{row.event_error_ms.read_late_percent:.1f} %",
            f"{row.worst_loop_lag_ms:.1f}",
        )
        for row in found
    )
    columns = (
        "streams at once",
        "TTFT error, median",
        "TTFT error, p99",
        "event error, median",
        "event error, p99",
        "events",
        "of these read late",
        "worst loop lag",
    )
    return Table("The client's own error", columns, rows, "\n".join((_NOTE, *doubts(found))))

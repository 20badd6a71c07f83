"""What a calibration found, as a table."""

from collections.abc import Sequence

from anaphora.lab.calibration.calibrate import ClientError
from anaphora.report.tables import Table

_NOTE = (
    "The client's stamp minus the server's clock read immediately before the send, in milliseconds: positive is late.\n"
    "All streams of a row were started together and ran at once; an event is one of the 40 chunks of a stream."
)
_LATE = (
    "With {streams} streams the 99th percentile is not to be trusted: events were read together with later ones, and\n"
    "of those only the last one's arrival is known. The machine is too busy for so many: let it rest, ask for fewer,\n"
    "or, as root on Linux, put `chrt -f 5` in front of the command, which then runs as soon as something arrives."
)


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
    late = [str(row.num_streams) for row in found if not row.event_error_ms.tail_is_true]
    note = f"{_NOTE}\n{_LATE.format(streams=' and '.join(late))}" if late else _NOTE
    return Table("The client's own error", columns, rows, note)

"""Steps whose parts would take too much memory at once, cut into waves that are attended one after another."""

from collections.abc import Sequence

from anaphora.models.batch import SequenceSpan


def split_into_waves(spans: Sequence[SequenceSpan], split: int, max_parts: int) -> list[list[SequenceSpan]]:
    """Waves with at most ``max_parts`` parts each (or one query), where a query has a part for every ``split`` keys.

    A request's later queries may come in a later wave: all its keys are written before the first.
    """
    waves: list[list[SequenceSpan]] = [[]]  # the first may stay empty
    room = max_parts
    for span in spans:
        parts_of_each = -(-span.kv_len // split)
        done = 0
        while done < span.query_len:
            count = min(span.query_len - done, max(room, 0) // parts_of_each)
            if count == 0 and waves[-1]:
                waves.append([])
                room = max_parts
                continue
            count = max(count, 1)
            waves[-1].append(_part(span, done, done + count))
            room -= count * parts_of_each
            done += count
    return waves


def _part(span: SequenceSpan, start: int, end: int) -> SequenceSpan:
    """Queries ``[start, end)`` of a request, and the keys that they see."""
    unseen = span.query_len - end
    return SequenceSpan(span.query_start + start, end - start, span.kv_len - unseen, span.block_table)

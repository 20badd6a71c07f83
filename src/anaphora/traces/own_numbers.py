"""Block ids that number prefixes as they come, as those of published traces do."""

from array import array


class OwnNumbers:
    """Paths of ids that count from 0 on, each of which always follows the same one.

    New ids come last in a path, and what is known before them begins the path that the last of it was new in. To see
    that takes far less time than to look every id up.
    """

    def __init__(self) -> None:
        self._first_paths: list[array[int]] = []
        """By number, the path that it was new in."""

    def __len__(self) -> int:
        """Ids so far."""
        return len(self._first_paths)

    def take(self, path: "array[int]") -> bool:
        """Whether a path of unsigned 32-bit ids goes on so. If it does not, nothing changes."""
        first_paths, num_before = self._first_paths, len(self._first_paths)
        num_new = max(0, path[-1] + 1 - num_before)
        if num_new > len(path):
            return False
        known, new = path[: len(path) - num_new], path[len(path) - num_new :]
        if new != array("I", range(num_before, num_before + num_new)):
            return False
        if known and (known[-1] >= num_before or known != first_paths[known[-1]][: len(known)]):
            return False
        first_paths += [path] * num_new
        return True

    def parents(self) -> list[int]:
        """By number, the id before it, or -1."""
        places = [(path, path.index(number)) for number, path in enumerate(self._first_paths)]
        return [path[place - 1] if place else -1 for path, place in places]

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
        first_paths, num_before, stop = self._first_paths, len(self._first_paths), path[-1] + 1
        if stop <= num_before:
            return path == first_paths[path[-1]][: len(path)]
        num_known = len(path) + num_before - stop
        if num_known < 0 or path[num_known:] != array("I", range(num_before, stop)):
            return False
        if num_known:
            last = path[num_known - 1]
            if last >= num_before or path[:num_known] != first_paths[last][:num_known]:
                return False
        first_paths += [path] * (stop - num_before)
        return True

    def parents(self) -> list[int]:
        """By number, the id before it, or -1."""
        places = [(path, path.index(number)) for number, path in enumerate(self._first_paths)]
        return [path[place - 1] if place else -1 for path, place in places]

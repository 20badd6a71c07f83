"""Where fetched and converted models are kept, and how something gets there whole or not at all.

A result is made in ``partial/``, flushed to the disk, and renamed into place: whoever sees it sees all of it. A lock
file per result lets only one process make it; the lock goes with its process, so what lies in ``partial/`` for that
result while the lock is ours was left behind by one that died, and is removed.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from anaphora.checkpoints.progress import Progress
from anaphora.errors import CheckpointError

HOME_VARIABLE = "ANAPHORA_HOME"


def anaphora_home() -> Path:
    """``$ANAPHORA_HOME``, else ``anaphora`` in the user's cache folder (``$XDG_CACHE_HOME`` or ``~/.cache``)."""
    home = os.environ.get(HOME_VARIABLE)
    if home:
        return Path(home).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache").expanduser().absolute() / "anaphora"


def make_once(target: Path, make: Callable[[Path], None], progress: Progress) -> Path:
    """``target`` (a file or folder under the home), made by ``make(path)`` if it is not there.

    ``make`` writes a file or a folder at the path that it is given; if it raises, or the process dies, there is no
    target. Safe to call from several processes at once: one makes, the others wait.

    Raises:
        CheckpointError: the disk is full or the folder cannot be written.
    """
    if target.exists():
        return target
    with _errors_as_one_line(target), _lock(target, progress), _workshop(target) as path:
        if not target.exists():  # another process may have made it while this one waited
            make(path)
            _flush(path)
            path.rename(target)
            _flush_folder(target.parent)
    return target


@contextmanager
def _lock(target: Path, progress: Progress) -> Iterator[None]:
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock_file(target.name).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for another process that makes {target.name}", 0, 0)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _lock_file(name: str) -> Path:
    folder = anaphora_home() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.lock"


@contextmanager
def _workshop(target: Path) -> Iterator[Path]:
    """A path to make ``target`` at, in the same file system. The lock must be held."""
    partial = anaphora_home() / "partial"
    partial.mkdir(exist_ok=True)
    folder = partial / target.name
    if folder.exists():
        shutil.rmtree(folder)
    _remove_abandoned(partial)
    folder.mkdir()
    try:
        yield folder / target.name
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(partial: Path) -> None:
    """Remove what processes that died were making: everything whose lock nobody holds."""
    for folder in partial.iterdir():
        with _lock_file(folder.name).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _errors_as_one_line(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        advice = f"choose another folder with {HOME_VARIABLE}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            advice = f"make room, or {advice}"
        raise CheckpointError(f"cannot make {target}: {error.strerror or error}: {advice}") from error


def _flush(path: Path) -> None:
    """Write ``path``, and all files in it if it is a folder, through to the disk."""
    if path.is_dir():
        for child in path.iterdir():
            _flush(child)
        _flush_folder(path)
        return
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _flush_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

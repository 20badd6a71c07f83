import contextlib
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models_for_tests import tiny_checkpoint, write_tiny_gguf

from anaphora.checkpoints.gguf_file import GgufFile
from anaphora.errors import CheckpointError


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gguf")
    model = tiny_checkpoint(folder / "m", num_hidden_layers=1)
    extra = {"test.floats": [1.5, -2.5], "test.signed": -7.25, "test.flag": True}
    return write_tiny_gguf(folder / "m.gguf", model, quantization=gguf.GGMLQuantizationType.Q4_1, metadata=extra)


def test_everything_equals_what_the_slow_reader_sees(file: Path) -> None:
    reader = gguf.GGUFReader(file)
    expected = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    with GgufFile(file) as ours:
        assert ours.metadata == expected
        assert list(ours.tensors) == [tensor.name for tensor in reader.tensors]
        for theirs in reader.tensors:
            tensor = ours.tensors[theirs.name]
            assert (tensor.kind, tensor.shape) == (theirs.tensor_type, tuple(theirs.shape.tolist())[::-1])
            np.testing.assert_array_equal(
                ours.raw_rows(tensor, slice(None)).reshape(-1), np.frombuffer(theirs.data.tobytes(), np.uint8)
            )
        tensor = ours.tensors["token_embd.weight"]
        some = ours.raw_rows(tensor, np.array([3, 1]))
        np.testing.assert_array_equal(some, ours.raw_rows(tensor, slice(None))[[3, 1]])


def refusal(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(CheckpointError) as caught:
        GgufFile(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


class TestDamage:
    def test_no_gguf_at_all(self, tmp_path: Path) -> None:
        assert "does not begin with GGUF" in refusal(tmp_path / "f", b"PK\x03\x04 a zip file")
        assert "cannot be read as a GGUF file" in refusal(tmp_path / "f", b"")

    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(CheckpointError, match="No such file"):
            GgufFile(tmp_path / "f")

    @pytest.mark.parametrize("version", [1, 4, 3 << 24])
    def test_other_versions(self, tmp_path: Path, version: int) -> None:
        assert f"version {version} is not supported" in refusal(tmp_path / "f", b"GGUF" + struct.pack("<I", version))

    def test_counts_that_cannot_be(self, tmp_path: Path) -> None:
        head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
        key = struct.pack("<Q", 1) + b"k"
        assert "cut short" in refusal(tmp_path / "f", b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1 << 60))
        assert "cut short" in refusal(tmp_path / "f", head + struct.pack("<Q", 1 << 62) + b"k")
        assert "cut short" in refusal(tmp_path / "f", head + key + struct.pack("<IIQ", 9, 4, 1 << 61))
        assert "cut short" in refusal(tmp_path / "f", head + key + struct.pack("<IIQ", 9, 8, 1 << 61))
        assert "cut short" in refusal(tmp_path / "f", head + key + struct.pack("<IIQQ", 9, 8, 1, 1 << 63))
        assert "unsupported type, number 9" in refusal(tmp_path / "f", head + key + struct.pack("<IIQ", 9, 9, 1))
        assert "unknown type, number 13" in refusal(tmp_path / "f", head + key + struct.pack("<I", 13))

    @pytest.mark.parametrize(
        ("dimensions", "kind", "offset", "message"),
        [
            ((64,), 99, 0, "unknown quantisation, number 99"),
            ((63,), 2, 0, "rows of 63, no multiple of 32"),
            ((64,), 0, 1, "reaches beyond the end"),
            ((65,), 0, 0, "reaches beyond the end"),
            ((1 << 41,), 0, 0, "has the shape"),
            ((0, 64), 0, 0, "has the shape"),
            ((64, 1 << 32, 1 << 32), 0, 0, "reaches beyond the end"),
            ((), 0, 0, "has 0 dimensions"),
            ((1, 1, 1, 1, 1), 0, 0, "has 5 dimensions"),
        ],
    )
    def test_tensors_that_cannot_be(
        self, tmp_path: Path, dimensions: tuple[int, ...], kind: int, offset: int, message: str
    ) -> None:
        entry = struct.pack("<Q", 1) + b"t" + struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)
        header = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + entry + struct.pack("<IQ", kind, offset)
        data = header + bytes(-len(header) % 32) + bytes(256)
        assert message in refusal(tmp_path / "f", data)

    def test_a_bad_alignment(self, tmp_path: Path) -> None:
        key = struct.pack("<Q", 17) + b"general.alignment" + struct.pack("<II", 4, 0)
        assert "general.alignment is 0" in refusal(tmp_path / "f", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key)

    def test_text_that_is_no_utf8(self, tmp_path: Path) -> None:
        key = struct.pack("<Q", 1) + b"k" + struct.pack("<IQ", 8, 1) + b"\xff"
        assert "damaged" in refusal(tmp_path / "f", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key)

    @settings(max_examples=60, deadline=None)
    @given(data=st.data())
    def test_a_file_cut_anywhere_is_refused(
        self, file: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        whole = file.read_bytes()
        length = data.draw(st.integers(0, len(whole) - 1))
        cut = tmp_path_factory.getbasetemp() / "cut.gguf"
        cut.write_bytes(whole[:length])
        if length < len(whole) - 31:  # the last tensor may be followed by padding
            with pytest.raises(CheckpointError):
                GgufFile(cut)

    @settings(max_examples=60, deadline=None)
    @given(data=st.data())
    def test_any_changed_bytes_are_read_or_refused(
        self, file: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        content = bytearray(file.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(4, 12_000))] = data.draw(st.integers(0, 255))
        changed = tmp_path_factory.getbasetemp() / "changed.gguf"
        changed.write_bytes(content)
        with contextlib.suppress(CheckpointError), GgufFile(changed):
            pass

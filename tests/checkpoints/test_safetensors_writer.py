from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from anaphora.checkpoints.safetensors_writer import write_float32


def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    tensors = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b.\u00e9": np.array([np.inf, -0.0, 1e-40], np.float32),
        "scalar": np.array(7, np.float32),
    }
    chunks = [tensors["a"][:1], tensors["a"][1:], np.concatenate([tensors["b.\u00e9"], [np.float32(7)]])]
    write_float32(tmp_path / "f", {name: tensor.shape for name, tensor in tensors.items()}, chunks)
    loaded = load_file(tmp_path / "f")
    assert list(loaded) == list(tensors)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(loaded[name], tensor)


def test_chunks_need_not_be_contiguous(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    write_float32(tmp_path / "f", {"t": (3, 2)}, [values.T])
    np.testing.assert_array_equal(load_file(tmp_path / "f")["t"], values.T)


def test_chunks_that_do_not_fill_the_shapes_break_an_invariant(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        write_float32(tmp_path / "f", {"t": (3,)}, [np.zeros(2, np.float32)])

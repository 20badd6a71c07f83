"""Write a GGUF file anew with its matrices in Q8_0, llama.cpp's fastest format on a CPU; vectors become F32.

python -m benchmarks.cpu.requantise SOURCE.gguf TARGET.gguf
"""

import sys

import gguf
import numpy as np

_FILE_TYPE_KEY = "general.file_type"


def requantise(source: str, target: str) -> None:
    """Copy the metadata, and each tensor through float32. What the source's own quantisation lost stays lost."""
    reader = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(target, architecture)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in (_FILE_TYPE_KEY, "general.architecture"):
            continue
        is_array = field.types[0] == gguf.GGUFValueType.ARRAY
        element = field.types[1] if is_array and len(field.types) > 1 else None
        writer.add_key_value(key, field.contents(), field.types[0], sub_type=element)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        values = values.reshape([int(size) for size in reversed(tensor.shape)])
        if values.ndim == 1:
            writer.add_tensor(tensor.name, values)
        else:
            packed = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(tensor.name, packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    requantise(*sys.argv[1:])

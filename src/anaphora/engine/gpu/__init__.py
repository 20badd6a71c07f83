"""Steps on a GPU: static buffers, captured graphs, sampling on the device, and how its memory is divided."""

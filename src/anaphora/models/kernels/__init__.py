"""Triton kernels of the CUDA back end. Every function writes into tensors that it is given, launches with shapes known
beforehand and waits for nothing: so a whole step can be captured in a CUDA graph. Nothing here is imported on CPU."""

"""The Llama family in torch: weights, rotary embedding, paged keys and values, attention behind one seam, kernels."""

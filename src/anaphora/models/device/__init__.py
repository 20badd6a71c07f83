"""The same model family for a GPU: fixed-shape passes over tensors that stay in place, so that they can be captured."""

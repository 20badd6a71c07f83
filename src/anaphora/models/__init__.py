"""The Llama family in plain torch: weights, rotary embedding, paged keys and values, attention behind one seam."""

"""HTTP, tokenising and event encoding in processes beside the engine: what each runs, and who watches them."""

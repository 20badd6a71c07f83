"""The inference engine: schedule, run the model, take the results in. Token ids in, token ids and text out."""

"""What is asked: texts of our own and of the seed documents, sized by the target's tokenizer, new in every run."""

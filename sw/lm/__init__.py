"""The language model of the main job: weights, tokenizer, forward pass, products, evaluation."""

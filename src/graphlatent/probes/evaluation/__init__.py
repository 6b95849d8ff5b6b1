"""Evaluation of embeddings and labels in files: the work of `graphlatent probe` and `links`."""

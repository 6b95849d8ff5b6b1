"""Charts of runs and embeddings."""

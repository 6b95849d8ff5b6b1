"""The training step, the training loop, and resuming an interrupted run."""

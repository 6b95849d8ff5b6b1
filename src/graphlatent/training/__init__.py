"""The training step, the loop around it, and the run folder that lets a killed run go on."""

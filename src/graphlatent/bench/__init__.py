"""The paper's tables: what to run for each cell, and the number that was printed there."""

"""A graph on disk as memory-mapped arrays: how it is written from tables, and read."""

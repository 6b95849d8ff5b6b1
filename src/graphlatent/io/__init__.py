"""Atomic files and the run folder."""

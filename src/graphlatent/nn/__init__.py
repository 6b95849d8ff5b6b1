"""Encoders, decoders, normalisation, readout and heads."""

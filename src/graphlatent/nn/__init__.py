"""Encoders, decoders, normalisation and readout."""

"""Encoders, decoders and readout, and the model that holds them."""

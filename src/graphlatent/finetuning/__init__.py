"""Classifiers from few labels: a pre-trained encoder and a linear head, fine-tuned together."""

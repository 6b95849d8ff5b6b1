"""Sparse matrices, masked operators, fused layer ends and GPU kernels."""

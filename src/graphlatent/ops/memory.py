"""Huge pages for large CPU tensors.

A training step allocates and frees the same large tensors again and again. On Linux each new one
gets new pages, which the kernel fills with zeros, 4 KiB at a time; that can take as long as the
arithmetic. With pages of 2 MiB the cost is negligible. torch requests them where the environment
variable THP_MEM_ALLOC_ENABLE is set, which it reads when it allocates its first tensor.
"""

from __future__ import annotations

import os


def ask_for_huge_pages() -> None:
    """Set torch's switch for huge pages, unless the user has set it.

    It has no effect once torch has allocated a tensor.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

"""Large arrays in huge pages.

A training step makes and frees the same large arrays over and over. On Linux every new one is made
of new pages, which the system fills with zeros one by one, 4 KiB at a time, and that can take as
long as the arithmetic. With pages of 2 MiB it hardly counts. torch asks the system for them where
an environment variable of its own says so; it reads it when it makes its first array.
"""

from __future__ import annotations

import os


def ask_for_huge_pages() -> None:
    """Let torch ask for huge pages, unless the user has said otherwise. Without effect once torch
    has made an array.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

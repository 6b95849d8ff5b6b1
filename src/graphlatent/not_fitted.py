"""The error of an estimator that is used before `fit`."""

from __future__ import annotations

from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from graphlatent.errors import GraphLatentError


class NotFittedError(GraphLatentError, SklearnNotFittedError):  # type: ignore[misc]
    """An estimator is used before `fit`; also scikit-learn's error of that name."""

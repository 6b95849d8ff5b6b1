"""Regularised linear classifiers fitted to the exact minimum, many at a time, by Newton's method.

Kept by hand because it solves all splits, folds and values of `l2` in batched products, on a GPU
too. Measured against scikit-learn with one thread each (2026-11-18, CPU, torch 2.13.0, scikit-learn
1.9.1), with equal accuracy:

- nested cross-validation of a linear SVM on PROTEINS (1,113 graphs, 96 columns, 30 inner and 10
  outer fits, 8 settings): 0.62 s, `GridSearchCV` with `LinearSVC` 3.61 s
  (`python benchmarks/probes.py --sets PROTEINS`; more sets in benchmarks/results/probes.json);
- logistic regression on Photo (765 training nodes, 512 columns, 2 splits, 15 settings): 2.9 s,
  `LogisticRegression` 3.5 s (`python benchmarks/probes.py --part logistic`).
"""

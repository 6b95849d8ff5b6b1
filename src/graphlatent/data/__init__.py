"""Reading graphs into `GraphData` and batching them.

Graphs come from tables, files and objects of other libraries.
"""

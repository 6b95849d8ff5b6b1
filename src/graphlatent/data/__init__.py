"""From what people have (tables, files, objects of other libraries) to `GraphData`, and from there
to batches.
"""

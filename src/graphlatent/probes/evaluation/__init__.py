"""From files of embeddings and labels to a comparison of probes: what `graphlatent probe` and
`graphlatent links` compute.
"""

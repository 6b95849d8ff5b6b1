"""What is done with embeddings after training: neighbours, clusters, likely links, outliers."""

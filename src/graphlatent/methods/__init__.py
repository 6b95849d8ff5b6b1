"""Self-supervised methods: LaGraph and its peers."""

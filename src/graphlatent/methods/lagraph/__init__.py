"""LaGraph: latent graph prediction (Xie, Xu and Ji, ICML 2022)."""

"""Matrix factorization of sparse ratings by η-PASGD."""

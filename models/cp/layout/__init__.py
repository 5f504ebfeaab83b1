"""The nonzeros of one rank, laid out for MTTKRP."""

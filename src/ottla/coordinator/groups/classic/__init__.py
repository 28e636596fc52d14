"""The classic group protocol: members join, one of them leads and assigns."""

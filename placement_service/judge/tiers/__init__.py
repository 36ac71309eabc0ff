"""The tiers of the objective, a file for each; `score` lists them."""

"""What planning found, as it is shown: explanations, differences, moves and simulations."""

"""Options that commands share, and everything that is wrong with them."""

"""The aggregate model: parts of a kind counted per domain; plans to counts and back."""

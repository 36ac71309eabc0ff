"""Random questions too large for the oracle: claims are held against plans from everywhere."""

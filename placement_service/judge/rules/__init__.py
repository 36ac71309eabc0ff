"""The rules of the judge, a file for each family; `verify` lists them."""

"""The admission master: which gangs can be admitted at all."""

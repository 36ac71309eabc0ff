"""One module for each command of `placementctl`; its `command` is what runs."""

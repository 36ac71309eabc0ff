"""Where one gang goes: its domains, its nodes, its extras."""

"""From counts to names: which pod goes to which node, and which reservation it uses."""

"""Where nodes are unlike: parts in domains by configurations, counted and made a plan."""

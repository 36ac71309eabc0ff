"""Who gives way where many running gangs may: bounds and plans from the victim model."""

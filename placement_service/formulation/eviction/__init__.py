"""Who may give way to whom (rule 15): running gangs as gangs to decide about."""

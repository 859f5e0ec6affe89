"""Tasks and jobs as the controller leads them: what users ask for, what hosts are told, what is shown."""

"""What several experiments say together: changes from one to another, histories, and the hosts of a kind."""

"""How a search is planned and carried out."""

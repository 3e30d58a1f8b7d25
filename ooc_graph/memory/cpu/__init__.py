"""What of a graph the CPU holds within a budget, and the store for the rest."""

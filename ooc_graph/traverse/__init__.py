"""Algorithms, each a coroutine over supersteps; they name no device, store or cluster."""

"""What holds a collective back, in words and as JSON. `square.limits` knows it."""

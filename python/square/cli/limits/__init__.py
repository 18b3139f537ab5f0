"""What holds a collective back: cuts of its overlay, what crosses them, and the proof."""

"""What a node with accelerators would show: stand-ins for cards, and the first hour on real ones."""

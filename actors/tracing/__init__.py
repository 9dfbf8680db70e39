"""What is told to those who watch, and what is masked before it is."""

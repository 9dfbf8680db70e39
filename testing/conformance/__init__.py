"""What every store must do, as tests that any store can be put to."""

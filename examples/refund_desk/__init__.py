"""The refund desk: a real job for loopwright, settling refund requests against a shop's database."""

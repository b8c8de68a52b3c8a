"""How results are judged: intervals and paired tests."""

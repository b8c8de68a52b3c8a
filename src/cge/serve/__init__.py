"""`cge serve`: a trained model behind HTTP."""

"""The public classes: each is a scikit-learn estimator, in a module of its own: DeepWalk does not wait for PyTorch."""

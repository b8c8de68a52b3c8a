"""Studies of this project, run from a checkout by `cge reproduce`: tables and figures of the paper, and ablations."""

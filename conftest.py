"""Root conftest of the project: only what pytest allows nowhere else."""

pytest_plugins = ["pytester"]

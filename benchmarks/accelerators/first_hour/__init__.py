"""The first hour on an accelerator: the plan, its steps, and the page of what they found."""

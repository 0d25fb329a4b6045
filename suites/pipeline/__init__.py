"""A language model whose layers are spread over all devices of the node, one stage on each.

Open `test_pipeline.py` first; `cutting.py` decides which layers are one stage.
"""

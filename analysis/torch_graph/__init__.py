"""PyTorch models as graph files of hidup (analysis/from_torch.py).

export.py asks PyTorch for the ATen nodes of a model (the only file that needs PyTorch), translate.py
turns these into operations of hidup, attention.py finds attention among them, graph.py prints the
graph file. layout.py follows views: which element of a tensor of hidup an element of a tensor of
PyTorch is.
"""

"""PyTorch models as graph files of hidup (analysis/from_torch.py).

export.py gets the ATen nodes of a model from PyTorch (the only file that needs PyTorch), translate.py
turns these into operations of hidup, attention.py finds attention among them, graph.py prints the
graph file. layout.py follows views: it maps elements of a tensor of PyTorch to those of a tensor of
hidup.
"""

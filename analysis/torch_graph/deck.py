"""The deck that trains a graph file."""


def deck_of(graph, loss, file):
    """Returns YAML with sizes from the graph's shapes; users change data and learning rate."""
    used = graph.used(loss)
    source = next(tensor for tensor in used if tensor.operation == "input"
                  and tensor.name != "targets")
    if source.name == "images":
        model, data = "", "images"
    else:
        # Tokens index rows of the table, targets the logits' classes.
        tables = [tensor.inputs[1].shape[0] for tensor in used
                  if tensor.operation == "embedding" and tensor.inputs[0] is source]
        vocab = min([*tables, loss.inputs[0].shape[-1]])
        model = f"  sequence: {source.shape[1]}\n  vocab: {vocab}\n"
        data = "synthetic  # random tokens; kind: text and a path for real ones"
    return (f"# Trains {file}; inputs/README.md lists every key.\n"
            f"model:\n  graph: {file}\n{model}\ndata:\n  kind: {data}\n\n"
            f"train:\n  batch: {source.shape[0]}\n  steps: 100\n  seed: 1\n  optimizer: adamw\n"
            "  lr: 1e-3\n")

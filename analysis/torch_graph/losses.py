"""The cross entropy among ATen nodes, as one node or as two."""

from .nodes import Unsupported
from .values import View


class LogSoftmax:
    """Input for nll_loss() only."""

    def __init__(self, logits):
        self.logits = logits


def cross_entropy(translator, x, target, weight=None, reduction=1, ignore_index=-100,
                  label_smoothing=0.0):
    if weight is not None or reduction != 1 or label_smoothing != 0 or ignore_index >= 0:
        raise Unsupported("hidup's cross_entropy is the mean over all targets, without weights "
                          "and label_smoothing; ignore_index is negative")
    view = translator.whole(x)
    if len(view.shape) > 2:  # [N, classes, ..]
        view = View(view.base, view.layout.permute([0, *range(2, len(view.shape)), 1]))
    base, rows = translator.rows(view, view.shape[-1])
    targets = translator.whole(target)
    if rows.atoms != targets.layout.atoms or base.shape[:-1] != targets.base.shape:
        raise Unsupported("targets in another order than the logits, or another number")
    return View.of(translator.add("cross_entropy", (), [base, targets.base]))


def log_softmax(translator, x, dim, dtype=None):
    if dim % len(translator.node.shape) != len(translator.node.shape) - 1:
        raise Unsupported("log_softmax over another dimension than the last")
    return LogSoftmax(x)


def nll_loss(translator, x, target, weight=None, reduction=1, ignore_index=-100):
    if not isinstance(x, LogSoftmax):
        raise Unsupported("of other than log_softmax")
    return cross_entropy(translator, x.logits, target, weight, reduction, ignore_index)

"""Steps of PyTorch, in a separate process: torch_step.py JSON prints one JSON object.

In: model, train (sections of a deck), device, precision (fp32, bf16), ranks, threads of a rank,
steps, warmup. RANK and MASTER_PORT in the environment where ranks are several.
Out, from rank 0: seconds (median of the steps after the warmup), loss (of the last step), lacks
(features that this PyTorch lacks).
"""

import json
import os
import statistics
import sys
import time

import torch
from torch import nn

from torch_models import Transformer


def optimizer_of(network, train, lacks):
    options = {"lr": float(train["lr"]), "weight_decay": train.get("weight_decay", 0.0)}
    kind = torch.optim.AdamW if train.get("optimizer") == "adamw" else torch.optim.Adam
    parameters = [p for p in network.parameters() if p.requires_grad]
    try:
        return kind(parameters, fused=True, **options)
    except (TypeError, RuntimeError):
        lacks.append("fused Adam")
        return kind(parameters, **options)


class Steps:
    """Forward and backward pass, clipping and update: in bf16 by autocast, with masters in f32."""

    def __init__(self, what, lacks):
        self.what = what
        self.train = what["train"]
        device = what["device"]
        torch.manual_seed(1)
        self.network = Transformer(what["model"]).to(device)
        if what["ranks"] > 1:
            torch.distributed.init_process_group("gloo", rank=int(os.environ["RANK"]),
                                                 world_size=what["ranks"])
            self.network = nn.parallel.DistributedDataParallel(self.network)
        self.loss_of = torch.compile(self.network)
        self.optimizer = optimizer_of(self.network, self.train, lacks)
        shape = (self.train["batch"] // what["ranks"], what["model"]["sequence"])
        self.tokens = [torch.randint(what["model"]["vocab"], shape, device=device) for _ in range(2)]

    def __call__(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.what["device"], dtype=torch.bfloat16,
                            enabled=self.what["precision"] == "bf16"):
            loss = self.loss_of(*self.tokens)
        loss.backward()
        if self.train.get("clip_norm", 0.0) > 0.0:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.train["clip_norm"])
        self.optimizer.step()
        return loss.item()  # waits for the device


def main():
    what = json.loads(sys.argv[1])
    torch.set_flush_denormal(True)
    torch.backends.cuda.matmul.allow_tf32 = True
    if what["device"] == "cpu":
        torch.set_num_threads(what["threads"])
    lacks = []
    step = Steps(what, lacks)
    times = []
    for _ in range(what["steps"]):
        start = time.perf_counter()
        loss = step()
        times.append(time.perf_counter() - start)
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps({"seconds": statistics.median(times[what["warmup"]:]), "loss": loss,
                          "lacks": lacks}))
    if what["ranks"] > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()

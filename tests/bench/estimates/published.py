"""Results of others on an H100 SXM, with their sources. None of them was measured by us."""

# short name: source
SOURCES = {
    "MAMF": "Bekman, ml-engineering, compute/accelerator, table of the maximum achievable matmul "
            "flops: H100 SXM in bf16 794.5 of 989 TFLOP/s; the peak of 989 is at 1.83 GHz. "
            "https://github.com/stas00/ml-engineering/tree/master/compute/accelerator",
    "FA3": "Shah et al., FlashAttention-3, 2024, arXiv:2407.08608: H100 SXM5, 16 bits, 16k tokens, "
           "hidden size 2048; from a transcription of its figures, in which the slower one of two for "
           "a head size is taken for the one with a causal mask.",
    "QuACK": "Guo, Zadouri, Dao, Getting Memory-bound Kernels to Speed-of-Light, 2025: softmax 3.01 "
             "TB/s of 3.35; RMSNorm, softmax and cross entropy about 3 TB/s for rows above 4k; "
             "shared memory has 20 to 30 TB/s. "
             "https://github.com/Dao-AILab/quack/blob/main/media/2025-07-10-membound-sol.md",
    "Liger": "Liger-Kernel 0.5.2, benchmark/data/h100_all_benchmark_data.csv, on an H100 NVL (whose "
             "memory has 3.9 TB/s): layer norm forward, f32, 4,096 rows of 1,024: 15.9 us (Liger), "
             "16.0 (torch.compile), 23.9 (PyTorch). https://github.com/linkedin/Liger-Kernel",
    "Hopper": "Luo et al., Dissecting the NVIDIA Hopper Architecture, 2025, arXiv:2501.12084; that "
              "mma.sync stops at 63 % of the peak is quoted from "
              "https://github.com/waynehacking8/blackwell-tensorcore-kernels "
              "(results/mma_ablation.md), which measures FlashAttention-2 at 388 TFLOP/s at most.",
    "static": "Static Batching of Irregular Workloads on GPUs, 2025, arXiv:2501.16103: the products "
              "of experts at 91 % of the peak on an H800.",
    "speedrun": "modded-nanogpt: the llm.c replication of GPT-2 124M, 10 billion tokens, took 45 "
                "minutes on 8 H100. https://github.com/KellerJordan/modded-nanogpt",
}

# The best known figure, by operation; we found none for the others.
PRODUCT = "794.5 TFLOP/s at the best shape (cuBLAS) [MAMF]"
ROWS = "about 3 TB/s for rows above 4k [QuACK]"
BEST = {
    "matmul": PRODUCT,
    "matmul_bias": PRODUCT,
    "matmul_backward_input": PRODUCT,
    "matmul_backward_weight": PRODUCT,
    "expert_matmul": "91 % of the peak, H800, inference [static]",
    "attention": "heads of 64, causal, 1k: 288 TFLOP/s (cuDNN), 265 (FA3), 229 (FA2); 4k: 363, 420, "
                 "284 [FA3]",
    "attention_backward": "heads of 64, no mask, 1k: 363 TFLOP/s (FA3), 348 (cuDNN), 238 (FA2); 4k: "
                          "453, 417, 279 [FA3]",
    "layer_norm": "2.1 TB/s, f32, rows of 1,024 (Liger; torch.compile the same) [Liger]",
    "rms_norm": ROWS,
    "cross_entropy": ROWS,
}
NOTHING = "no figure found"


def best(operation):
    return BEST.get(operation, NOTHING)


# Estimated milliseconds of a step of gpt2-124m with 16 sequences by PyTorch, compiled.
PYTORCH = (36.0, 40.0)
PYTORCH_MODEL = "gpt2-124m"
ALIKE = ("gpt2-350m",)  # models assumed to be as far above their floors
# Measurements of other steps by others.
MEASURED = {
    "gpt2-124m": "8 H100, with what they send: 10^10 tokens in 2,700 s are 35 ms for 16,384 tokens "
                 "of a GPU [speedrun]",
}


def elsewhere(model, floors):
    """Yields the known figures of others' steps. floors: {model: seconds}."""
    if model == PYTORCH_MODEL or model in ALIKE:
        least, most = (floors[model] / floors[PYTORCH_MODEL] * each for each in PYTORCH)
        how = "" if model == PYTORCH_MODEL else f", if as far above its floor as {PYTORCH_MODEL}"
        yield f"PyTorch, compiled: est. {least:.0f} to {most:.0f} ms{how}"
    yield MEASURED.get(model, "No published figure found of this step on an H100")

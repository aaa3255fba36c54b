"""Losses, gradient norms, gradients and loads of the decks in tests/golden, against PyTorch's."""

import subprocess
import sys
import unittest

import harness

GOLDEN = harness.SOURCE / "tests" / "golden"


class GoldenTest(harness.RunTest):

    def compare(self, deck, ranks, strategy="dp", microbatches=1):
        run, gradients = self.folder / "run.h5", self.folder / "gradients.h5"
        self.assert_done(harness.run(
            ranks, ["train", GOLDEN / f"{deck}.yaml", "--cluster", self.folder / "cluster.yaml",
                    "--strategy", strategy, "--set", f"train.microbatches={microbatches}",
                    "--out", run, "--dump-gradients", gradients]))
        check = subprocess.run([sys.executable, GOLDEN / "check_golden.py",
                                GOLDEN / f"{deck}.json", run, gradients],
                               stdout=subprocess.PIPE, text=True)
        self.assertEqual(check.returncode, 0, check.stdout)

    def test_dense_on_one_rank(self):
        self.compare("dense", 1)

    def test_dense_on_two_ranks(self):
        self.compare("dense", 2)

    def test_two_experts_per_token_on_one_rank(self):
        self.compare("sgmoe", 1)

    def test_two_experts_per_token_on_two_ranks(self):
        self.compare("sgmoe", 2)

    def test_one_expert_per_token_on_one_rank(self):
        self.compare("switch", 1)

    def test_one_expert_per_token_on_two_ranks(self):
        self.compare("switch", 2)

    def test_three_experts_per_token_with_losses_of_the_router_on_one_rank(self):
        self.compare("topk", 1)

    def test_three_experts_per_token_with_losses_of_the_router_in_three_microbatches(self):
        self.compare("topk", 2, microbatches=3)

    def test_unnormalized_weights_gshards_balance_loss_and_no_biases(self):
        self.compare("topk-gshard", 2)

    def test_gpt_on_one_rank(self):
        self.compare("gpt", 1)

    def test_gpt_on_two_ranks(self):
        self.compare("gpt", 2)

    def test_gpt_by_tensor_parallelism_in_three_microbatches(self):
        self.compare("gpt", 2, "megatron-sp", 3)

    def test_gpt_with_experts_on_two_ranks(self):
        self.compare("gpt-switch", 2)

    def test_llama_on_one_rank(self):
        self.compare("llama", 1)

    def test_llama_by_tensor_parallelism_in_two_microbatches(self):
        self.compare("llama", 3, "megatron-sp", 2)

    def test_llama_with_a_tied_head_on_two_ranks(self):
        self.compare("llama-tied", 2)

    def test_llama_with_a_tied_head_by_tensor_parallelism(self):
        self.compare("llama-tied", 2, "megatron")

    def test_gated_experts_as_mixtrals(self):
        self.compare("mixtral", 2, "ep-deepspeed")

    def test_sigmoids_biases_that_balance_and_shared_experts_as_deepseeks_on_one_rank(self):
        self.compare("deepseek", 1)

    def test_sigmoids_biases_that_balance_and_shared_experts_as_deepseeks_in_microbatches(self):
        self.compare("deepseek", 3, "fsdp", 2)

    def test_dropless_unnormalized_weights_and_shared_experts(self):
        self.compare("topk-dropless", 2, "ep-fastmoe", microbatches=2)

    def test_dropless_sigmoids_biases_that_balance_and_shared_experts(self):
        self.compare("deepseek-dropless", 2, "ep-deepspeed")

    def test_vit_on_one_rank(self):
        self.compare("vit", 1)

    def test_vit_on_two_ranks(self):
        self.compare("vit", 2, microbatches=2)

    def test_vit_by_tensor_parallelism(self):
        self.compare("vit", 3, "megatron")

    def test_vit_with_experts_on_two_ranks(self):
        self.compare("vit-switch", 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)

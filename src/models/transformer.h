// The graphs of the families of models.
#pragma once

#include "deck/deck.h"
#include "graph/graph.h"

namespace hidup {

// Returns the graph of the deck's model for one step. Its inputs are tokens and targets
// i32[train.batch, model.sequence], or images f32[train.batch, kImagePatches, kPatchValues] and
// targets i32[train.batch]; the loss is last. `vocab` is the deck's, the data's where the deck says
// auto, or the number of classes for images.
//
// bert: PyTorch's TransformerEncoder in its default form (post-norm, ReLU; Vaswani et al.,
// "Attention is all you need", 2017) with a causal mask, on embeddings scaled by sqrt(hidden) plus
// sinusoidal positions, and an untied head with bias. Dropout follows the embedding, both halves of
// a block and the ReLU, but not the attention probabilities.
//
// gpt: GPT-2 (Radford et al. 2019): pre-norm blocks with GELU, learned positions, a layer norm
// behind the last block, and a head without bias whose weight is the embedding. Weights start
// normal with the deviation 0.02, those before a residual connection with 0.02 / sqrt(2 layers).
// Dropout follows the embedding and both halves of a block, but not the attention probabilities.
//
// llama: Llama (Touvron et al. 2023): pre-norm blocks with RMS norm, SwiGLU, rotary positions and
// grouped heads of keys and values, a norm behind the last block, and a head that is the embedding
// or has a weight of its own; no biases. Weights start normal with the deviation 0.02. Dropout is
// as in gpt.
//
// vit: the vision transformer (Dosovitskiy et al., "An image is worth 16x16 words", 2020) with
// bert's blocks and no mask: a product with bias of every patch, a class token before the patches,
// learned positions, and a head on the output of the class token. Weights of the product and the
// head start as PyTorch's linear layers, the class token with zeros, positions normal with the
// deviation 0.02. Blocks end in a layer norm, so none stands before the head. Dropout is as in
// bert.
//
// With model.moe.experts, every model.moe.every-th block has a Mixture-of-Experts instead of its
// feed-forward network, routed as in GShard (two experts per token, Lepikhin et al. 2020), as in
// Switch (one, Fedus et al. 2021), to the top k experts, or by hash. An expert has a capacity per
// sequence; the residual connection carries tokens that find no slot.
Graph build_model(const Deck& deck, int64_t vocab);

}  // namespace hidup

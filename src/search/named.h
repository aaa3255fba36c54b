// The strategies that have a name.
#pragma once

#include <span>
#include <string_view>

#include "sharding/strategy.h"

namespace hidup {

struct NamedStrategy {
  std::string_view name;
  std::string_view doc;
};

// dp           data parallel: the batch is cut, parameters are replicated, gradients are
//              all-reduced in buckets beside the backward pass (PyTorch DDP, Li et al. 2020;
//              Horovod, Sergeev and Del Balso 2018)
// zero1        dp with sharded optimizer state: gradients are reduce-scattered, updated
//              parameters all-gathered (ZeRO stage 1, Rajbhandari et al. 2020)
// fsdp         parameters, gradients and optimizer state are sharded; a parameter is gathered for
//              its use, once a step (ZeRO stage 3; PyTorch FSDP, Zhao et al. 2023)
// ep-deepspeed dp, but each rank has some of the experts: all-to-alls of their buffers before
//              and after them; gradients as in dp (DeepSpeed-MoE, Rajbhandari et al. 2022)
// ep-fastmoe   the same with the gradients of what is replicated in one all-reduce after the
//              backward pass (FastMoE, He et al. 2021)
// megatron     tensor parallel: attention by heads, feed-forward networks and experts by columns,
//              then rows, embedding and head by vocabulary; the batch is not cut (Megatron-LM,
//              Shoeybi et al. 2019)
// megatron-sp  megatron with layer norms, dropout and residuals cut along the sequence
//              (Korthikanti et al. 2022)
// ps           parameter server: parameters and their update on the first rank of the axis, which
//              broadcasts them and receives the sum of the gradients (Li et al. 2014)
// min-comm     of all rules those by which a rank sends the fewest bytes in a step, each collective
//              counted as a ring; at equal volume those of the least computation and memory. It is
//              what searches look for that leave overlap out of account (FlexFlow, Jia et al. 2019;
//              Alpa, Zheng et al. 2022). As there computation must be divided: a rule by which the
//              first rank computes the whole of a product (matmul, attention) counts only where no
//              other is left. Otherwise replicating everything would need no message at all
std::span<const NamedStrategy> named_strategies();
// Throws Error(usage) with the known names, and the nearest, if there is no strategy of that name.
void check_strategy_name(std::string_view name);

// The strategy for every axis of the mesh alike.
// Throws as check_strategy_name() for any other name.
Strategy named_strategy(std::string_view name, const Graph& graph, const Mesh& mesh);

}  // namespace hidup

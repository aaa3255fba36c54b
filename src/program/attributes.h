// What an instruction is told beside its operands: the attributes of its operation, or its own.
#pragma once

#include "graph/attributes.h"

namespace hidup {

// Of a cross-entropy: what a target's loss is multiplied with.
struct LossAttributes {
  double scale = 1.0;

  bool operator==(const LossAttributes&) const = default;
  static void each(auto& self, auto visit) { visit("scale", self.scale, AttributeRange{}); }
};

struct ExpertLoadAttributes {
  int64_t capacity = 0;  // slots of an expert per sequence

  bool operator==(const ExpertLoadAttributes&) const = default;
  static void each(auto& self, auto visit) { visit("capacity", self.capacity, kCount); }
};

struct RouterSumsAttributes {
  int64_t capacity = 0;  // slots of an expert per sequence
  int64_t counted = 1;   // of a token's choices, the first ones

  bool operator==(const RouterSumsAttributes&) const = default;
  static void each(auto& self, auto visit) {
    visit("capacity", self.capacity, kCount);
    visit("counted", self.counted, kCount);
  }
};

// Of the losses of a router (kernels/router_losses.h).
struct RouterLossAttributes {
  double balance = 0.0;  // weight
  int64_t counted = 1;   // of a token's choices, the first ones
  double factor = 1.0;   // of the balance loss
  int64_t tokens = 1;    // of the whole batch
  double z = 0.0;        // weight

  bool operator==(const RouterLossAttributes&) const = default;
  static void each(auto& self, auto visit) {
    visit("balance", self.balance, kWeight);
    visit("counted", self.counted, kCount);
    visit("factor", self.factor, kPositive);
    visit("tokens", self.tokens, kPositive);
    visit("z", self.z, kWeight);
  }
};

struct ResidualNormAttributes {
  double epsilon = 1e-5;
  double p = 0.0;  // of the branch's dropout

  bool operator==(const ResidualNormAttributes&) const = default;
  static void each(auto& self, auto visit) {
    visit("epsilon", self.epsilon, AttributeRange{});
    visit("p", self.p, AttributeRange{});
  }
};

// Whether messages go through buffers (reshard.h); flags that are not set are not shown.
struct ReshardAttributes {
  bool packs = false;
  bool unpacks = false;

  bool operator==(const ReshardAttributes&) const = default;
  static void each(auto& self, auto visit) {
    if (self.packs) {
      visit("packs", self.packs, kFlag);
    }
    if (self.unpacks) {
      visit("unpacks", self.unpacks, kFlag);
    }
  }
};

struct ClipAttributes {
  double max_norm = 0.0;  // 0: no clipping

  bool operator==(const ClipAttributes&) const = default;
  static void each(auto& self, auto visit) { visit("max_norm", self.max_norm, AttributeRange{}); }
};

struct AdamAttributes {
  double beta1 = 0.9;
  double beta2 = 0.999;
  bool decoupled = false;  // AdamW's weight decay
  double epsilon = 1e-8;
  double weight_decay = 0.0;

  bool operator==(const AdamAttributes&) const = default;
  static void each(auto& self, auto visit) {
    visit("beta1", self.beta1, AttributeRange{});
    visit("beta2", self.beta2, AttributeRange{});
    visit("decoupled", self.decoupled, kFlag);
    visit("epsilon", self.epsilon, AttributeRange{});
    visit("weight_decay", self.weight_decay, AttributeRange{});
  }
};

using InstructionAttributes =
    std::variant<NoAttributes, EmbeddingAttributes, MatmulAttributes, DropoutAttributes,
                 LayerNormAttributes, RotaryAttributes, AttentionAttributes, RouteAttributes,
                 ExpertAttributes, GateAttributes, LossAttributes, ExpertLoadAttributes,
                 RouterSumsAttributes, RouterLossAttributes, ResidualNormAttributes,
                 ReshardAttributes, ClipAttributes, AdamAttributes>;

}  // namespace hidup

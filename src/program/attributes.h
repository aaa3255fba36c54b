// The parameters of an instruction: the attributes of its operation, or its own.
#pragma once

#include "graph/attributes.h"

namespace hidup {

// A cross-entropy multiplies the loss of every target by `scale`.
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
  int64_t counted = 1;   // number of a token's first choices that count

  bool operator==(const RouterSumsAttributes&) const = default;
  static void each(auto& self, auto visit) {
    visit("capacity", self.capacity, kCount);
    visit("counted", self.counted, kCount);
  }
};

// Parameters of a router's losses (kernels/router_losses.h).
struct RouterLossAttributes {
  double balance = 0.0;  // weight
  int64_t counted = 1;   // number of a token's first choices that count
  double factor = 1.0;   // factor of the balance loss
  int64_t tokens = 1;    // number in the whole batch
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
  double p = 0.0;  // dropout probability of the branch

  bool operator==(const ResidualNormAttributes&) const = default;
  static void each(auto& self, auto visit) {
    visit("epsilon", self.epsilon, AttributeRange{});
    visit("p", self.p, AttributeRange{});
  }
};

// Messages that go through buffers (reshard.h). Printing leaves out flags that are not set.
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

struct RouterBiasAttributes {
  double speed = 0.0;  // how far a bias moves in a step

  bool operator==(const RouterBiasAttributes&) const = default;
  static void each(auto& self, auto visit) { visit("speed", self.speed, AttributeRange{}); }
};

using InstructionAttributes =
    std::variant<NoAttributes, EmbeddingAttributes, MatmulAttributes, DropoutAttributes,
                 LayerNormAttributes, RotaryAttributes, AttentionAttributes, RouteAttributes,
                 ExpertAttributes, RoundAttributes, PackAttributes, GateAttributes, LossAttributes,
                 ExpertLoadAttributes, RouterSumsAttributes, RouterLossAttributes,
                 ResidualNormAttributes, ReshardAttributes, ClipAttributes, AdamAttributes,
                 RouterBiasAttributes>;

}  // namespace hidup

// Attributes of operations: a struct per set of attributes.
//
// each() visits every attribute with its name and its range, in the order of the names. Printing,
// parsing and comparing use it, so an attribute is written once.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "core/limits.h"

namespace hidup {

// The values that kernels can compute with.
struct AttributeRange {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool or_zero = false;
  bool whole = false;
};
inline constexpr AttributeRange kFlag{0.0, 1.0, false, true};
inline constexpr AttributeRange kCount{1.0, 1e9, false, true};
inline constexpr AttributeRange kCountOrNone{1.0, 1e9, true, true};
inline constexpr AttributeRange kPositive{1e-30, 1e30};  // holds in single precision, too
inline constexpr AttributeRange kWeight{1e-30, 1e30, true};

struct NoAttributes {
  bool operator==(const NoAttributes&) const = default;
  static void each(auto& /*self*/, auto /*visit*/) {}
};

struct EmbeddingAttributes {
  double scale = 1.0;  // factor of the table's rows

  bool operator==(const EmbeddingAttributes&) const = default;
  static void each(auto& self, auto visit) { visit("scale", self.scale, kPositive); }
};

struct MatmulAttributes {
  int64_t contract = 1;     // dimensions that are summed over
  bool transposed = false;  // the weight is [.., k] instead of [k, ..]

  bool operator==(const MatmulAttributes&) const = default;
  static void each(auto& self, auto visit) {
    visit("contract", self.contract, kCount);
    visit("transposed", self.transposed, kFlag);
  }
};

struct DropoutAttributes {
  double p = 0.0;  // probability that an element becomes 0

  bool operator==(const DropoutAttributes&) const = default;
  static void each(auto& self, auto visit) {
    visit("p", self.p, AttributeRange{kMinDropout, kMaxDropout, true});
  }
};

struct LayerNormAttributes {
  double epsilon = 1e-5;  // added to the variance, in rms_norm to the mean square

  bool operator==(const LayerNormAttributes&) const = default;
  static void each(auto& self, auto visit) {
    visit("epsilon", self.epsilon, AttributeRange{1e-30, 1.0});
  }
};

struct RotaryAttributes {
  double theta = 10000.0;  // the base of the angles

  bool operator==(const RotaryAttributes&) const = default;
  static void each(auto& self, auto visit) { visit("theta", self.theta, kPositive); }
};

struct AttentionAttributes {
  bool causal = true;  // a position attends to itself and those before it

  bool operator==(const AttentionAttributes&) const = default;
  static void each(auto& self, auto visit) { visit("causal", self.causal, kFlag); }
};

struct RouteAttributes {
  int64_t capacity = 0;  // slots of an expert per sequence
  int64_t choices = 1;   // experts per token
  // Weights of the router's losses (kernels/router_losses.h), minimised with the loss; 0: none.
  double balance_loss = 0.0;
  double z_loss = 0.0;
  bool gshard = false;  // the balance loss is GShard's instead of Switch's
  // route_biased has these: the scores that biases are added to, and how far they move in a step.
  bool sigmoid = false;  // sigmoids of the logits instead of their softmax
  double speed = 0.0;

  bool has_losses() const { return balance_loss > 0.0 || z_loss > 0.0; }
  bool operator==(const RouteAttributes&) const = default;
  static void each(auto& self, auto visit) {
    visit("balance_loss", self.balance_loss, kWeight);
    visit("capacity", self.capacity, kCount);
    visit("choices", self.choices, kCount);
    visit("gshard", self.gshard, kFlag);
    visit("sigmoid", self.sigmoid, kFlag);
    visit("speed", self.speed, kWeight);
    visit("z_loss", self.z_loss, kWeight);
  }
};

// Attributes of the routing that an operation reads. Graph::add_op() fills them in. 0: not given.
struct ExpertAttributes {
  int64_t capacity = 0;
  int64_t experts = 0;

  bool operator==(const ExpertAttributes&) const = default;
  static void each(auto& self, auto visit) {
    visit("capacity", self.capacity, kCount);
    visit("experts", self.experts, kCount);
  }
};

// The rows of every expert and sequence that a round of experts takes: `rows` rows from `first` on.
// Without a number of rows, it takes all.
struct RoundAttributes {
  int64_t first = 0;
  int64_t rows = 0;

  bool operator==(const RoundAttributes&) const = default;
  static void each(auto& self, auto visit) {
    visit("first", self.first, kCountOrNone);
    visit("rows", self.rows, kCountOrNone);
  }
};

// The attributes of a routing with those of a round.
struct PackAttributes {
  int64_t capacity = 0;
  int64_t experts = 0;
  RoundAttributes round;

  bool operator==(const PackAttributes&) const = default;
  static void each(auto& self, auto visit) {
    visit("capacity", self.capacity, kCount);
    visit("experts", self.experts, kCount);
    std::decay_t<decltype(self.round)>::each(self.round, visit);
  }
};

// The same with the formula of the weights (kernels/gate.h).
struct GateAttributes {
  int64_t capacity = 0;
  int64_t experts = 0;
  bool normalize = true;  // the weights of several choices add up to `scale`
  double scale = 1.0;
  bool sigmoid = false;  // weights are sigmoids of the logits instead of their softmax

  bool operator==(const GateAttributes&) const = default;
  static void each(auto& self, auto visit) {
    visit("capacity", self.capacity, kCount);
    visit("experts", self.experts, kCount);
    visit("normalize", self.normalize, kFlag);
    visit("scale", self.scale, kPositive);
    visit("sigmoid", self.sigmoid, kFlag);
  }
};

using OpAttributes =
    std::variant<NoAttributes, EmbeddingAttributes, MatmulAttributes, DropoutAttributes,
                 LayerNormAttributes, RotaryAttributes, AttentionAttributes, RouteAttributes,
                 ExpertAttributes, RoundAttributes, PackAttributes, GateAttributes>;

// Calls visit(name, value as a double) for every attribute of a variant of such structs.
template <typename Variant>
void for_each_attribute(const Variant& attributes, auto visit) {
  std::visit(
      [&](const auto& held) {
        std::decay_t<decltype(held)>::each(
            held, [&](std::string_view name, const auto& value, const AttributeRange&) {
              visit(name, static_cast<double>(value));
            });
      },
      attributes);
}

// Sets an attribute. Throws Error(usage) with the known attributes, or the values it takes.
void set_attribute(OpAttributes& attributes, std::string_view name, double value);

// Throws Error(usage) with the name of an attribute that is out of its range.
void check_attributes(const OpAttributes& attributes);

}  // namespace hidup

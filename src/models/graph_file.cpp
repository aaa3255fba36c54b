#include "models/graph_file.h"

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "graph/operation.h"
#include "graph/text.h"

namespace hidup {
namespace {

class Checks {
 public:
  Checks(const Graph& graph, const std::string& source) : graph_(graph), source_(source) {}

  void inputs(const Shape& wanted) const {
    for (const Tensor& tensor : graph_.tensors()) {
      if (tensor.role != Tensor::Role::input) {
        continue;
      }
      expect(tensor.name == "tokens" || tensor.name == "targets",
             "input {}: a graph has the inputs tokens and targets", tensor.name);
      expect(tensor.dtype == DType::i32 && tensor.shape == wanted,
             "input {} is {}{}, but train.batch and model.sequence make it i32{}", tensor.name,
             name_of(tensor.dtype), to_string(tensor.shape), to_string(wanted));
    }
    expect(graph_.find("tokens") >= 0 && graph_.find("targets") >= 0,
           "a graph has the inputs tokens and targets");
  }

  void loss() const {
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops().size()); ++id) {
      const bool last = id + 1 == static_cast<OpId>(graph_.ops().size());
      expect((graph_.op(id).kind == OpKind::cross_entropy) == last,
             "{}: the last operation, and only that, is a cross_entropy: the loss",
             graph_.op_name(id));
    }
  }

  // Everything but the loss is read, and has a gradient where it is no integer.
  void uses() const {
    std::vector<bool> read(graph_.tensors().size());
    std::vector<bool> reached(graph_.tensors().size());
    for (const Op& op : graph_.ops()) {
      for (const TensorId input : op.inputs) {
        read[static_cast<size_t>(input)] = true;
        if (!spec_of(op.kind).integer_output) {
          reached[static_cast<size_t>(input)] = true;
        }
      }
    }
    for (size_t id = 0; id < read.size(); ++id) {
      const Tensor& tensor = graph_.tensors()[id];
      expect(read[id] || static_cast<TensorId>(id) == graph_.loss(), "{} is not used", tensor.name);
      expect(reached[id] || static_cast<TensorId>(id) == graph_.loss() ||
                 tensor.dtype == DType::i32,
             "{} decides about routing only: no gradient reaches it", tensor.name);
    }
  }

  void vocabulary(int64_t vocab) const {
    for (const Op& op : graph_.ops()) {
      const Shape& first = graph_.tensor(op.inputs[0]).shape;
      if (op.kind == OpKind::embedding) {
        const Tensor& table = graph_.tensor(op.inputs[1]);
        expect(table.shape[0] >= vocab, "{} has {} rows, but the data has {} different tokens",
               table.name, table.shape[0], vocab);
      } else if (op.kind == OpKind::cross_entropy) {
        expect(first.back() >= vocab, "{} has {} classes, but the data has {} different tokens",
               graph_.tensor(op.inputs[0]).name, first.back(), vocab);
      }
    }
  }

 private:
  template <typename... Args>
  void expect(bool holds, fmt::format_string<Args...> format, Args&&... args) const {
    if (!holds) {
      fail(ExitCode::usage, "{}: {}", source_, fmt::format(format, std::forward<Args>(args)...));
    }
  }

  const Graph& graph_;
  const std::string& source_;
};

}  // namespace

Graph read_graph(const std::string& text, const std::string& source, const Deck& deck,
                 int64_t vocab) {
  Graph graph = parse_graph(text, source);
  const Checks checks(graph, source);
  checks.inputs({deck.train.batch, deck.model.sequence});
  checks.loss();
  checks.uses();
  checks.vocabulary(vocab);
  return graph;
}

}  // namespace hidup

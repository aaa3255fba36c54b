#include "models/graph_file.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "core/images.h"
#include "deck/data_deck.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "graph/operation.h"
#include "graph/text.h"

namespace hidup {
namespace {

// Returns ":LINE:COLUMN" of the statement that defines a tensor in a text that parse_graph() took.
std::string place_of(std::string_view text, std::string_view name) {
  constexpr std::string_view kBlanks = " \t\r";
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    size_t start = std::min(line.find_first_not_of(kBlanks), line.size());
    for (const std::string_view keyword : {"input", "parameter"}) {
      const size_t next = line.find_first_not_of(kBlanks, start + keyword.size());
      const bool defines = line.compare(start, keyword.size(), keyword) == 0 &&
                           next != std::string::npos && next > start + keyword.size() &&
                           line[next] != '=';
      start = defines ? next : start;
    }
    const size_t end = line.find_first_of(" \t\r:=", start);
    if (std::string_view(line).substr(start, end - start) == name) {
      return fmt::format(":{}:{}", number, start + 1);
    }
  }
  return "";
}

class Checks {
 public:
  Checks(const Graph& graph, const std::string& text, const std::string& source)
      : graph_(graph), text_(text), source_(source) {}

  void inputs(const Deck& deck) const {
    const bool images = deck.data->kind == "images";
    const int64_t batch = deck.train->batch;
    const std::string data = images ? "images" : "tokens";
    const Shape data_shape =
        images ? Shape{batch, kImagePatches, kPatchValues} : Shape{batch, deck.model->sequence};
    for (const Tensor& tensor : graph_.tensors()) {
      if (tensor.role != Tensor::Role::input) {
        continue;
      }
      expect(tensor.name == data || tensor.name == "targets", tensor,
             "input {}: a graph has the inputs {} and targets", tensor.name, data);
      const bool pixels = images && tensor.name == data;
      const Shape wanted = images && !pixels ? Shape{batch} : data_shape;
      expect(is_floating(tensor.dtype) == pixels && tensor.shape == wanted, tensor,
             "input {} is {}{}, but {} it {}{}", tensor.name, name_of(tensor.dtype),
             to_string(tensor.shape),
             images ? "train.batch and data.kind make" : "train.batch and model.sequence make",
             pixels ? "f32" : "i32", to_string(wanted));
    }
    if (graph_.find(data) < 0 || graph_.find("targets") < 0) {
      fail(ExitCode::usage, "{}: a graph has the inputs {} and targets", source_, data);
    }
  }

  void loss() const {
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops().size()); ++id) {
      const bool last = id + 1 == static_cast<OpId>(graph_.ops().size());
      expect((graph_.op(id).kind == OpKind::cross_entropy) == last,
             graph_.tensor(graph_.op(id).output),
             "{}: the last operation, and only that, is a cross_entropy: the loss",
             graph_.op_name(id));
    }
  }

  // Checks that every tensor but the loss is read, and that all but integers have a gradient.
  void uses() const {
    std::vector<bool> read(graph_.tensors().size());
    std::vector<bool> reached(graph_.tensors().size());
    for (const Op& op : graph_.ops()) {
      for (const TensorId input : op.inputs) {
        read[static_cast<size_t>(input)] = true;
        if (has_backward(op)) {
          reached[static_cast<size_t>(input)] = true;
        }
      }
    }
    for (size_t id = 0; id < read.size(); ++id) {
      const Tensor& tensor = graph_.tensors()[id];
      expect(read[id] || static_cast<TensorId>(id) == graph_.loss(), tensor, "{} is not used",
             tensor.name);
      expect(
          reached[id] || static_cast<TensorId>(id) == graph_.loss() || tensor.dtype == DType::i32,
          tensor, "{} decides about routing only: no gradient reaches it", tensor.name);
    }
  }

  void vocabulary(int64_t vocab) const {
    for (const Op& op : graph_.ops()) {
      const Shape& first = graph_.tensor(op.inputs[0]).shape;
      if (op.kind == OpKind::embedding) {
        const Tensor& table = graph_.tensor(op.inputs[1]);
        expect(table.shape[0] >= vocab, table,
               "{} has {} rows, but the data has {} different tokens", table.name, table.shape[0],
               vocab);
      } else if (op.kind == OpKind::cross_entropy) {
        expect(first.back() >= vocab, graph_.tensor(op.inputs[0]),
               "{} has {} classes, but the data has {} different tokens",
               graph_.tensor(op.inputs[0]).name, first.back(), vocab);
      }
    }
  }

 private:
  template <typename... Args>
  void expect(bool holds, const Tensor& about, fmt::format_string<Args...> format,
              Args&&... args) const {
    if (!holds) {
      fail(ExitCode::usage, "{}{}: {}", source_, place_of(text_, about.name),
           fmt::format(format, std::forward<Args>(args)...));
    }
  }

  const Graph& graph_;
  const std::string& text_;
  const std::string& source_;
};

}  // namespace

Graph read_graph(const std::string& text, const std::string& source, const Deck& deck,
                 int64_t vocab) {
  Graph graph = parse_graph(text, source);
  const Checks checks(graph, text, source);
  checks.inputs(deck);
  checks.loss();
  checks.uses();
  checks.vocabulary(vocab);
  return graph;
}

}  // namespace hidup

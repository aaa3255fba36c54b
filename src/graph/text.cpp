#include "graph/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "core/check.h"
#include "core/text.h"
#include "graph/operation.h"

namespace hidup {
namespace {

std::string print_type(const Tensor& tensor) {
  return fmt::format("{}{}", name_of(tensor.dtype), to_string(tensor.shape));
}

std::string print_init(const Init& init) {
  switch (init.kind) {
    case Init::Kind::zeros:
      return "zeros";
    case Init::Kind::ones:
      return "ones";
    case Init::Kind::uniform:
      return fmt::format("uniform({})", init.scale);
    case Init::Kind::normal:
      break;
  }
  return fmt::format("normal({})", init.scale);
}

std::string print_attributes(const Op& op) {
  std::string text;
  for_each_attribute(op.attributes, [&](std::string_view name, double value) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  });
  return text.empty() ? "" : fmt::format(" {{{}}}", text);
}

// Reads one line from left to right. Every error has its column.
class LineParser {
 public:
  LineParser(std::string_view line, const std::string& source, size_t number)
      : line_(line), source_(source), number_(number) {
    skip_blanks();
  }

  bool at_end() const { return at_ >= line_.size(); }
  size_t at() const { return at_; }

  [[noreturn]] void error(size_t at, const std::string& message) const {
    fail(ExitCode::usage, "{}:{}:{}: {}", source_, number_, at + 1, message);
  }

  // Reads a name: letters, digits, '_' and '.'.
  std::string_view word(std::string_view wanted) {
    const size_t start = at_;
    while (at_ < line_.size() && (std::isalnum(static_cast<unsigned char>(line_[at_])) != 0 ||
                                  line_[at_] == '_' || line_[at_] == '.')) {
      ++at_;
    }
    if (at_ == start) {
      error(start, fmt::format("expected {}, found {}", wanted, rest()));
    }
    if (at_ - start > kLongestQuote) {
      error(start,
            fmt::format("a name of {} characters, more than {}", at_ - start, kLongestQuote));
    }
    const std::string_view found = line_.substr(start, at_ - start);
    skip_blanks();
    return found;
  }

  bool take(char c) {
    if (at_end() || line_[at_] != c) {
      return false;
    }
    ++at_;
    skip_blanks();
    return true;
  }

  void expect(char c) {
    if (!take(c)) {
      error(at_, fmt::format("expected '{}', found {}", c, rest()));
    }
  }

  double number() {
    double value = 0.0;
    const auto [end, status] =
        std::from_chars(line_.data() + at_, line_.data() + line_.size(), value);
    if (status != std::errc() || !std::isfinite(value)) {
      error(at_, fmt::format("expected a number, found {}", rest()));
    }
    at_ = static_cast<size_t>(end - line_.data());
    skip_blanks();
    return value;
  }

  int64_t extent() {
    constexpr double kMostExtent = 1e15;
    const size_t start = at_;
    const double value = number();
    if (!(value >= 1.0 && value <= kMostExtent) || value != std::floor(value)) {
      error(start, fmt::format("expected an extent, a whole number from 1 to {}", kMostExtent));
    }
    return static_cast<int64_t>(value);
  }

 private:
  std::string rest() const {
    return at_end() ? "the end of the line" : fmt::format("'{}'", shown(line_.substr(at_)));
  }

  void skip_blanks() {
    at_ = std::min(line_.find_first_not_of(" \t\r", at_), line_.size());
    if (at_ < line_.size() && line_[at_] == '#') {
      at_ = line_.size();
    }
  }

  std::string_view line_;
  const std::string& source_;
  size_t number_;
  size_t at_ = 0;
};

struct TensorType {
  DType dtype;
  Shape shape;
};

TensorType parse_type(LineParser& line) {
  const size_t at = line.at();
  const std::string_view name = line.word("a type such as f32[8, 16]");
  TensorType type{};
  const auto* const dtype =
      std::ranges::find_if(kDTypes, [&](DType known) { return name_of(known) == name; });
  if (dtype == kDTypes.end()) {
    line.error(at, fmt::format("unknown type {}; there are f32, bf16, f16 and i32", name));
  }
  type.dtype = *dtype;
  line.expect('[');
  while (!line.take(']')) {
    if (!type.shape.empty()) {
      line.expect(',');
    }
    type.shape.push_back(line.extent());
  }
  return type;
}

void parse_input(LineParser& line, Graph& graph) {
  const std::string name(line.word("a name"));
  line.expect(':');
  const TensorType type = parse_type(line);
  graph.add_input(name, type.dtype, type.shape);
}

void parse_parameter(LineParser& line, Graph& graph) {
  const std::string name(line.word("a name"));
  line.expect(':');
  const size_t type_at = line.at();
  const TensorType type = parse_type(line);
  if (!is_floating(type.dtype)) {
    line.error(type_at, "a parameter is f32, bf16 or f16");
  }
  line.expect('=');
  const size_t at = line.at();
  constexpr double kLeastScale = 1e-30;  // parameters are in single precision
  constexpr double kMostScale = 1e30;
  constexpr const char* kStarts = "zeros, ones, uniform(BOUND) or normal(DEVIATION)";
  const std::string_view kind = line.word(kStarts);
  Init init;
  if (kind == "ones") {
    init.kind = Init::Kind::ones;
  } else if (kind == "uniform" || kind == "normal") {
    init.kind = kind == "uniform" ? Init::Kind::uniform : Init::Kind::normal;
    line.expect('(');
    const size_t scale_at = line.at();
    init.scale = line.number();
    if (!(init.scale >= kLeastScale && init.scale <= kMostScale)) {
      line.error(scale_at, fmt::format("expected a {} from {} to {}",
                                       kind == "uniform" ? "bound" : "standard deviation",
                                       kLeastScale, kMostScale));
    }
    line.expect(')');
  } else if (kind != "zeros") {
    line.error(at, fmt::format("expected {}, found {}", kStarts, kind));
  }
  bool decay = false;
  if (!line.at_end()) {
    const size_t decay_at = line.at();
    decay = line.word("decay") == "decay";
    if (!decay) {
      line.error(decay_at, "expected decay or the end of the line");
    }
  }
  graph.add_parameter(name, type.shape, init, decay, type.dtype);
}

TensorId parse_operand(LineParser& line, const Graph& graph) {
  const size_t at = line.at();
  const std::string_view name = line.word("the name of a tensor");
  const TensorId id = graph.find(name);
  if (id < 0) {
    std::vector<std::string> names;
    for (const Tensor& tensor : graph.tensors()) {
      names.push_back(tensor.name);
    }
    const std::string hint = nearest(name, names);
    line.error(at, fmt::format("{} is not defined above{}", name,
                               hint.empty() ? "" : fmt::format("; did you mean {}?", hint)));
  }
  return id;
}

const OperationSpec& parse_kind(LineParser& line) {
  const size_t at = line.at();
  const std::string_view name = line.word("an operation");
  const OperationSpec* spec = find_operation(name);
  if (spec == nullptr) {
    std::vector<std::string> names;
    for (const OperationSpec& known : all_operations()) {
      names.emplace_back(known.name);
    }
    const std::string hint = nearest(name, names);
    line.error(at, fmt::format("unknown operation {}{}; there are {}", name,
                               hint.empty() ? "" : fmt::format(" (did you mean {}?)", hint),
                               fmt::join(names, ", ")));
  }
  return *spec;
}

OpAttributes parse_attributes(LineParser& line, const OperationSpec& spec) {
  OpAttributes attributes = spec.attributes;
  if (!line.take('{')) {
    return attributes;
  }
  for (bool first = true; !line.take('}'); first = false) {
    if (!first) {
      line.expect(',');
    }
    const size_t at = line.at();
    const std::string_view name = line.word("an attribute");
    line.expect('=');
    const double value = line.number();
    try {
      set_attribute(attributes, name, value);
    } catch (const Error& error) {
      line.error(at, fmt::format("{}: {}", spec.name, error.what()));
    }
  }
  return attributes;
}

void parse_op(LineParser& line, Graph& graph, const std::string& name) {
  const OperationSpec& spec = parse_kind(line);
  std::vector<TensorId> inputs;
  line.expect('(');
  while (!line.take(')')) {
    if (!inputs.empty()) {
      line.expect(',');
    }
    inputs.push_back(parse_operand(line, graph));
  }
  const OpAttributes attributes = parse_attributes(line, spec);
  const TensorId output = graph.add_op(spec.kind, name, inputs, attributes);
  if (line.take(':')) {
    const size_t at = line.at();
    const TensorType type = parse_type(line);
    const Tensor& tensor = graph.tensor(output);
    if (type.dtype != tensor.dtype || type.shape != tensor.shape) {
      line.error(at, fmt::format("{} is {}, by its inputs", name, print_type(tensor)));
    }
  }
}

void parse_statement(LineParser& line, std::optional<Graph>& graph) {
  const size_t at = line.at();
  const std::string first(line.word("a statement"));
  if (first == "graph") {
    if (graph) {
      line.error(at, "a file holds one graph");
    }
    graph.emplace(std::string(line.word("the graph's name")));
  } else if (!graph) {
    line.error(at, fmt::format("expected `graph NAME` first, found {}", first));
  } else if (line.take('=')) {
    parse_op(line, *graph, first);
  } else if (first == "input") {
    parse_input(line, *graph);
  } else if (first == "parameter") {
    parse_parameter(line, *graph);
  } else {
    line.error(at, fmt::format("expected input, parameter or NAME = ..., found {}", first));
  }
  if (!line.at_end()) {
    line.error(line.at(), "expected the end of the line");
  }
}

}  // namespace

std::string print_graph(const Graph& graph) {
  std::string text = fmt::format("graph {}\n\n", graph.name());
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role == Tensor::Role::input) {
      text += fmt::format("input {} : {}\n", tensor.name, print_type(tensor));
    }
  }
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role == Tensor::Role::parameter) {
      text += fmt::format("parameter {} : {} = {}{}\n", tensor.name, print_type(tensor),
                          print_init(tensor.init), tensor.decay ? " decay" : "");
    }
  }
  text += "\n";
  for (const Op& op : graph.ops()) {
    std::string inputs;
    for (const TensorId input : op.inputs) {
      inputs += (inputs.empty() ? "" : ", ") + graph.tensor(input).name;
    }
    const Tensor& output = graph.tensor(op.output);
    text += fmt::format("{} = {}({}){} : {}\n", output.name, spec_of(op.kind).name, inputs,
                        print_attributes(op), print_type(output));
  }
  return text;
}

Graph parse_graph(std::string_view text, const std::string& source) {
  std::optional<Graph> graph;
  size_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    LineParser line(text.substr(0, end), source, ++number);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.at_end()) {
      continue;
    }
    const size_t at = line.at();
    try {
      parse_statement(line, graph);
    } catch (const Error& error) {
      const std::string_view message = error.what();
      if (message.starts_with(source + ":")) {
        throw;
      }
      line.error(at, std::string(message));  // the graph's own error gets a place
    }
  }
  if (!graph || graph->ops().empty()) {
    fail(ExitCode::usage, "{}: expected `graph NAME` and at least one operation", source);
  }
  return std::move(*graph);
}

uint64_t graph_hash(const Graph& graph) {
  return hash_of(print_graph(graph));
}

}  // namespace hidup

// hidup graph: prints the operations of a model, its tensors, and every rule to shard them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "app/planning.h"
#include "commands/commands.h"
#include "core/results.h"
#include "core/units.h"
#include "deck/deck.h"
#include "graph/flops.h"
#include "graph/operation.h"
#include "graph/text.h"
#include "sharding/rules.h"

namespace hidup {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> texts(const std::vector<Placement>& placements) {
  std::vector<std::string> list;
  list.reserve(placements.size());
  for (const Placement& placement : placements) {
    list.push_back(to_string(placement));
  }
  return list;
}

std::string hash_text(const Graph& graph) {
  return fmt::format("{:016x}", graph_hash(graph));
}

// Returns the graph as text that can be parsed, with the rules as comments after each operation.
std::string print_text(const Graph& graph) {
  std::istringstream lines(print_graph(graph));
  std::string text = fmt::format(
      "# graph_hash {}, {} parameters\n"
      "# Below an operation its rules, the ways to shard it: NAME  INPUTS -> OUTPUT, of which a\n"
      "# rank has all (R), a part along dimension d (S(d)) or a summand (P).\n\n",
      hash_text(graph), format_count(graph.parameter_count()));
  std::string line;
  OpId next = 0;
  while (std::getline(lines, line)) {
    text += line + "\n";
    const bool operation = next < static_cast<OpId>(graph.ops().size()) &&
                           line.starts_with(graph.op_name(next) + " = ");
    if (!operation) {
      continue;
    }
    for (const Rule& rule : rules_of(graph, next)) {
      text += fmt::format("#   {:14} {} -> {}\n", rule.name, fmt::join(texts(rule.inputs), " "),
                          to_string(rule.output));
    }
    ++next;
  }
  return text;
}

Json tensor_json(const Tensor& tensor) {
  static constexpr std::array kRoles = {"input", "parameter", "activation"};
  Json json = {{"name", tensor.name},
               {"role", kRoles.at(static_cast<size_t>(tensor.role))},
               {"dtype", name_of(tensor.dtype)},
               {"shape", tensor.shape}};
  if (tensor.role != Tensor::Role::parameter) {  // rules are named after dimensions; a
    json["dims"] = tensor.dims;                  // parameter's dimensions have no names
  }
  return json;
}

Json operation_json(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  std::vector<std::string> inputs;
  std::vector<Shape> shapes;
  for (const TensorId input : op.inputs) {
    inputs.push_back(graph.tensor(input).name);
    shapes.push_back(graph.tensor(input).shape);
  }
  Json rules = Json::array();
  for (const Rule& rule : rules_of(graph, id)) {
    rules.push_back({{"name", rule.name},
                     {"inputs", texts(rule.inputs)},
                     {"output", to_string(rule.output)},
                     {"input_gradients", texts(rule.input_gradients)}});
  }
  const Tensor& output = graph.tensor(op.output);
  Json attributes = Json::object();
  for_each_attribute(op.attributes, [&](std::string_view name, double value) {
    attributes[std::string(name)] = value;
  });
  return {{"name", output.name},
          {"kind", spec_of(op.kind).name},
          {"inputs", inputs},
          {"attributes", attributes},
          {"flops", forward_flops(op.kind, shapes, output.shape, op.attributes)},
          {"rules", rules}};
}

// Prints one line per tensor and operation.
std::string print_lines(const std::vector<Json>& list) {
  std::string text;
  for (const Json& json : list) {
    text += (text.empty() ? "\n    " : ",\n    ") + json.dump();
  }
  return "[" + text + "\n  ]";
}

std::string print_json(const Graph& graph) {
  std::vector<Json> tensors;
  tensors.reserve(graph.tensors().size());
  for (const Tensor& tensor : graph.tensors()) {
    tensors.push_back(tensor_json(tensor));
  }
  std::vector<Json> operations;
  operations.reserve(graph.ops().size());
  for (OpId id = 0; id < static_cast<OpId>(graph.ops().size()); ++id) {
    operations.push_back(operation_json(graph, id));
  }
  return fmt::format(
      "{{\n  \"name\": \"{}\",\n  \"graph_hash\": \"{}\",\n  \"parameters\": {},\n"
      "  \"tensors\": {},\n  \"operations\": {}\n}}\n",
      graph.name(), hash_text(graph), graph.parameter_count(), print_lines(tensors),
      print_lines(operations));
}

// Returns a graph for Graphviz: boxes are operations with rules, ellipses parameters and inputs.
std::string print_dot(const Graph& graph) {
  std::string text = fmt::format("digraph \"{}\" {{\n  node [fontname=sans];\n", graph.name());
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role != Tensor::Role::activation) {
      text += fmt::format("  \"{}\" [shape=ellipse, label=\"{}\\n{}{}\"];\n", tensor.name,
                          tensor.name, name_of(tensor.dtype), to_string(tensor.shape));
    }
  }
  for (OpId id = 0; id < static_cast<OpId>(graph.ops().size()); ++id) {
    const Op& op = graph.op(id);
    const Tensor& output = graph.tensor(op.output);
    std::vector<std::string> rules;
    for (const Rule& rule : rules_of(graph, id)) {
      rules.push_back(rule.name);
    }
    text +=
        fmt::format("  \"{}\" [shape=box, label=\"{}\\n{} {}\\n{}\"];\n", output.name, output.name,
                    spec_of(op.kind).name, to_string(output.shape), fmt::join(rules, ", "));
    for (const TensorId input : op.inputs) {
      text += fmt::format("  \"{}\" -> \"{}\";\n", graph.tensor(input).name, output.name);
    }
  }
  return text + "}\n";
}

}  // namespace

int graph(const GraphOptions& options) {
  const DeckSource model = read_deck_file(options.deck);
  const Deck deck = parse_decks(&model, nullptr, options.overrides);
  const Graph whole = make_graph(deck, graph_text(deck), data_for_planning(deck).vocab);
  results::print("{}", options.format == "json"  ? print_json(whole)
                       : options.format == "dot" ? print_dot(whole)
                                                 : print_text(whole));
  return 0;
}

}  // namespace hidup

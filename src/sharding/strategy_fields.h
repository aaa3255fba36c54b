// What strategy files and files of hints have in common; for their readers only.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "sharding/strategy.h"
#include "yaml/fields.h"

namespace hidup {

// Reads and checks a key's value each, against a graph and a mesh, and collects the problems.
class StrategyFields {
 public:
  StrategyFields(const Graph& graph, const Mesh& mesh, const std::string& source)
      : graph_(graph), mesh_(mesh) {
    problems_.add_source(source);
  }

  const Graph& graph() const { return graph_; }
  const Mesh& mesh() const { return mesh_; }
  Problems& problems() { return problems_; }

  // The text that stands there, for messages.
  static std::string found(const YamlNode& node);
  void report(const YamlNode& node, const std::string& message) {
    problems_.add({0, node.line, node.column}, message);
  }
  YamlFields fields_of(const YamlNode& map, std::initializer_list<const char*> known,
                       std::initializer_list<const char*> optional = {}) {
    return hidup::fields_of(map, known, optional, problems_);
  }

  // 1, or 2, which has shares.
  void check_version(const YamlNode& node);
  // Of the axes, which mesh() has from then on.
  void read_shares(const YamlNode& node, const YamlNode& version);
  void check_graph(const YamlNode& node);
  void check_mesh(const YamlNode& node);
  int read_microbatches(const YamlNode& node);                  // 1 where it reports a problem
  int read_accumulate(const YamlNode& node, int microbatches);  // so, too
  bool read_recompute(const YamlNode& node, OpId id);
  Kept read_kept(const YamlNode& node, const std::string& parameter);
  // Of a key that only files of format_version 2 have; reports one elsewhere.
  void check_format_2(const YamlNode& node, std::string_view key, const YamlNode& version);
  bool read_deferred(const YamlNode& node);
  // Whether it is a list of that many rules, one per axis.
  bool check_rules(const YamlNode& node, std::string_view op);
  // "batch", "batch%1"
  std::optional<Rule> read_rule(const YamlNode& node, OpId id, size_t axis);
  // `inputs` and `outputs`, where they are there, must be the rules'.
  void check_placements(const YamlFields& fields, OpId id, const OpStrategy& op);
  Layout read_storage(const YamlNode& node, const Tensor& tensor, std::string_view key);
  // A placement per axis; `what` begins what it reports.
  Layout read_layout(const YamlNode& node, const std::string& what);

 private:
  void expect_text(const YamlNode& node, std::string_view key, const std::string& wanted,
                   std::string_view why);
  int read_count(const YamlNode& node, std::string_view key);
  // Whether it is a scalar of the two; reports what it should be, with the nearest.
  bool is_second_of(const YamlNode& node, const std::string& what, const char* first,
                    const char* second);
  void compare(const YamlNode& node, std::string_view key, OpId id, const OpStrategy& op,
               const std::vector<Layout>& wanted);
  void read_shares(const YamlNode& node, Axis& axis);
  // Reports one that the axis lacks.
  bool check_share(const YamlNode& node, size_t axis, ShareNumber share);

  const Graph& graph_;
  Mesh mesh_;
  Problems problems_;
};

}  // namespace hidup

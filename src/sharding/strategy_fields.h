// Fields that strategy files and files of hints share, for their readers only.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "sharding/strategy.h"
#include "yaml/fields.h"

namespace hidup {

inline constexpr const char* kReshardAfterForward = "reshard_after_forward";
inline constexpr const char* kKept = "kept";  // its old spelling

// Reads and checks values of keys against a graph and a mesh, and collects the problems.
class StrategyFields {
 public:
  StrategyFields(const Graph& graph, const Mesh& mesh, const std::string& source)
      : graph_(graph), mesh_(mesh), source_(source) {
    problems_.add_source(source);
  }

  const Graph& graph() const { return graph_; }
  const Mesh& mesh() const { return mesh_; }
  Problems& problems() { return problems_; }

  static bool is_given(const YamlNode& node);
  // Returns the node's text for messages.
  static std::string found(const YamlNode& node);
  void report(const YamlNode& node, const std::string& message) {
    problems_.add({0, node.line, node.column}, message);
  }
  YamlFields fields_of(const YamlNode& map, std::initializer_list<const char*> known,
                       std::initializer_list<const char*> optional = {}) {
    return hidup::fields_of(map, known, optional, problems_);
  }

  // Checks that the version is 1, or 2, which has shares.
  void check_version(const YamlNode& node);
  // Reads the shares of the axes and adds them to mesh().
  void read_shares(const YamlNode& node, const YamlNode& version);
  void check_graph(const YamlNode& node);
  void check_mesh(const YamlNode& node);
  int read_microbatches(const YamlNode& node);                  // returns 1 after a problem
  int read_accumulate(const YamlNode& node, int microbatches);  // returns 1 after a problem
  bool read_recompute(const YamlNode& node, OpId id);
  // Reads a parameter's reshard_after_forward. Its old spelling, kept: step|pass, gives one warning
  // per file. Returns nothing where neither is given.
  std::optional<Residency> read_residency(const YamlFields& fields, const std::string& parameter);
  // Checks a key that only files of format_version 2 may have.
  void check_format_2(const YamlNode& node, std::string_view key, const YamlNode& version);
  bool read_deferred(const YamlNode& node);
  // Returns true if the node is a list of rules, one per axis.
  bool check_rules(const YamlNode& node, std::string_view op);
  // Reads a rule such as "batch" or "batch%1".
  std::optional<Rule> read_rule(const YamlNode& node, OpId id, size_t axis);
  // Checks that `inputs` and `outputs`, where given, are those of the rules.
  void check_placements(const YamlFields& fields, OpId id, const OpStrategy& op);
  Layout read_storage(const YamlNode& node, const Tensor& tensor, std::string_view key);
  // Reads a placement per axis. Messages begin with `what`.
  Layout read_layout(const YamlNode& node, const std::string& what);

 private:
  void expect_text(const YamlNode& node, std::string_view key, const std::string& wanted,
                   std::string_view why);
  int read_count(const YamlNode& node, std::string_view key);
  // Returns true if the node is the second word. Reports a node that is neither, with the nearest.
  bool is_second_of(const YamlNode& node, const std::string& what, const char* first,
                    const char* second);
  void compare(const YamlNode& node, std::string_view key, OpId id, const OpStrategy& op,
               const std::vector<Layout>& wanted);
  void read_shares(const YamlNode& node, Axis& axis);
  // Reports a share that the axis lacks.
  bool check_share(const YamlNode& node, size_t axis, ShareNumber share);

  const Graph& graph_;
  Mesh mesh_;
  std::string source_;
  bool warned_ = false;
  Problems problems_;
};

}  // namespace hidup

// Reads profiles from YAML.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "cost/profile.h"
#include "sharding/algorithms.h"
#include "yaml/fields.h"

namespace hidup {
namespace {

// The range of a nonzero number. It keeps sums and products of numbers from overflowing.
struct Bounds {
  double least, most;
};
constexpr Bounds kSeconds{1e-12, 1e6};
constexpr Bounds kWork{1e-3, 1e30};  // flops or bytes
constexpr Bounds kBandwidth{1e-6, 1e30};
constexpr Bounds kRate{1.0, 1e30};  // flop/s or bytes/s
constexpr Bounds kSlowdown{1.0, 1e6};
constexpr Bounds kShared{1.0, 1e6};
constexpr double kRise = 1.01;  // least growth of bytes in a table; logarithms must differ
constexpr size_t kMostSizes = 16;
constexpr int64_t kMostAlgorithm = 7;
constexpr int64_t kMostRanks = int64_t{1} << 31;

std::optional<Opcode> opcode_of(const std::string& name) {
  for (const OpcodeSpec& spec : all_opcodes()) {
    if (spec.name == name) {
      return spec.opcode;
    }
  }
  return std::nullopt;
}

class ProfileReader {
 public:
  explicit ProfileReader(const std::string& source) { problems_.add_source(source); }

  Profile read(const std::string& text) {
    const YamlNode root =
        parse_yaml_map(text, "a profile: a map that begins with format_version", problems_);
    const YamlFields fields =
        fields_of(root,
                  {"format_version", "build", "device", "libraries", "mesh", "hosts", "model",
                   "launch_s", "signal_s", "overhead_s", "operations", "collectives"},
                  {"rates", "rates_by_class", "classes", "algorithms"}, problems_);
    problems_.throw_if_any();
    if (fields.at("format_version").text != "1") {
      report(fields.at("format_version"), "format_version: expected 1");
    }
    read_key(fields);
    profile_.model = fields.at("model").text;
    profile_.launch_s = number(fields.at("launch_s"), "launch_s", kSeconds);
    profile_.signal_s = number(fields.at("signal_s"), "signal_s", kSeconds);
    profile_.overhead_s = number(fields.at("overhead_s"), "overhead_s", kSeconds);
    profile_.rates = read_rates(fields.at("rates"));
    read_rates_by_class(fields.at("rates_by_class"));
    for (const YamlNode& node : items(fields.at("operations"), "operations")) {
      read_operation(node);
    }
    for (const YamlNode& node : items(fields.at("collectives"), "collectives")) {
      read_collective(node);
    }
    read_algorithms(fields.at("algorithms"));
    const bool any = std::ranges::any_of(profile_.operations, [](const OperationTime& time) {
      const double work = is_product(time.opcode) ? time.work.flops : time.work.bytes;
      return work > 0.0 && time.seconds > 0.0;
    });
    if (!any && problems_.empty()) {
      report(fields.at("operations"),
             "operations: expected at least one that has work (flops of a product, bytes of "
             "another) and takes seconds");
    }
    problems_.throw_if_any();
    return std::move(profile_);
  }

 private:
  void report(const YamlNode& node, const std::string& message) {
    problems_.add({0, node.line, node.column}, message);
  }

  const std::vector<YamlNode>& items(const YamlNode& node, std::string_view key) {
    if (node.kind != YamlNode::Kind::list) {
      report(node, fmt::format("{}: expected a list", key));
    }
    return node.values;
  }

  double number(const YamlNode& node, std::string_view key, const Bounds& bounds) {
    const double value = number_of(node, key, problems_);
    if (value != 0.0 && (value < bounds.least || value > bounds.most)) {
      report(node, fmt::format("{}: expected 0 or a number from {:g} to {:g}, found {}", key,
                               bounds.least, bounds.most, node.text));
      return 0.0;
    }
    return value;
  }
  int64_t whole(const YamlNode& node, std::string_view key) {
    return whole_of(node, key, problems_);
  }

  std::vector<int64_t> whole_list(const YamlNode& node, std::string_view key) {
    std::vector<int64_t> values;
    for (const YamlNode& item : items(node, key)) {
      values.push_back(whole(item, key));
    }
    return values;
  }

  void read_key(const YamlFields& fields) {
    ProfileKey& key = profile_.key;
    key.build = fields.at("build").text;
    key.device = fields.at("device").text;
    for (const YamlNode& library : items(fields.at("libraries"), "libraries")) {
      key.libraries.push_back(library.text);
    }
    for (const YamlNode& axis : items(fields.at("mesh"), "mesh")) {
      const YamlFields parts = fields_of(axis, {"name", "size"}, {"shared"}, problems_);
      key.mesh.push_back({parts.at("name").text, whole(parts.at("size"), "size")});
      read_shared(parts.at("shared"));
    }
    key.hosts = whole_list(fields.at("hosts"), "hosts");
    check_ranks(fields);
    read_classes(fields.at("classes"));
  }

  // Profiles of equal devices have no classes.
  void read_classes(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::null) {
      return;
    }
    std::vector<int64_t>& classes = profile_.key.classes;
    classes = whole_list(node, "classes");
    for (const int64_t number : classes) {
      if (number > classes_) {
        report(node, fmt::format("classes: expected numbers in order of appearance, found {} "
                                 "before {}",
                                 number, classes_));
        return;
      }
      classes_ = std::max(classes_, number + 1);
    }
    if (classes.size() != profile_.key.hosts.size() || classes_ < 2) {
      report(node, fmt::format("classes: expected {}, one for each rank, of two classes at least",
                               profile_.key.hosts.size()));
    }
  }

  // Reads `shared` of the last axis read. Profiles of older versions lack it.
  void read_shared(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::null) {
      return;
    }
    const double shared = number(node, "shared", kShared);
    if (shared == 0.0 && problems_.empty()) {
      report(node, "shared: expected a number of at least 1");
    }
    profile_.shared[profile_.key.mesh.size() - 1] = shared;
  }

  // Checks that the mesh has a valid number of ranks and that every rank has a host.
  void check_ranks(const YamlFields& fields) {
    const ProfileKey& key = profile_.key;
    int64_t ranks = 1;
    for (size_t axis = 0; axis < key.mesh.size(); ++axis) {
      const int64_t size = key.mesh[axis].size;
      if (size < 1 || size > kMostRanks / ranks) {
        report(fields.at("mesh").values[axis],
               fmt::format("size: expected at least 1, and {} ranks at most", kMostRanks));
        return;
      }
      ranks *= size;
    }
    if (key.mesh.empty()) {
      report(fields.at("mesh"), "mesh: expected at least one axis");
    } else if (static_cast<int64_t>(key.hosts.size()) != ranks) {
      report(fields.at("hosts"), fmt::format("hosts: expected {}, one for each rank of the mesh, "
                                             "found {}",
                                             ranks, key.hosts.size()));
    }
  }

  Opcode read_opcode(const YamlNode& node) {
    const std::optional<Opcode> opcode = opcode_of(node.text);
    if (!opcode) {
      report(node, fmt::format("op: there is no instruction {}", node.text));
    }
    return opcode.value_or(Opcode::add);
  }

  // Reads a type. Operations on f32 may lack it.
  DType read_dtype(const YamlNode& node) {
    if (node.text.empty()) {
      return DType::f32;
    }
    const auto* const found =
        std::ranges::find_if(kDTypes, [&](DType dtype) { return name_of(dtype) == node.text; });
    if (found == kDTypes.end() || !is_floating(*found)) {
      report(node, fmt::format("dtype: expected f32, bf16 or f16, found {}", node.text));
      return DType::f32;
    }
    return *found;
  }

  void read_operation(const YamlNode& node) {
    const YamlFields fields = fields_of(node, {"op", "sizes", "flops", "bytes", "seconds"},
                                        {"dtype", "by_class"}, problems_);
    OperationTime time{.opcode = read_opcode(fields.at("op")),
                       .work = {.flops = number(fields.at("flops"), "flops", kWork),
                                .bytes = number(fields.at("bytes"), "bytes", kWork),
                                .sizes = whole_list(fields.at("sizes"), "sizes"),
                                .dtype = read_dtype(fields.at("dtype"))},
                       .seconds = number(fields.at("seconds"), "seconds", kSeconds)};
    if (time.work.sizes.size() > kMostSizes) {
      report(fields.at("sizes"), fmt::format("sizes: expected {} at most, found {}", kMostSizes,
                                             time.work.sizes.size()));
    }
    if (!collective_of(time.opcode).empty()) {
      report(fields.at("op"), fmt::format("op: {} is a collective", name_of(time.opcode)));
    }
    read_by_class(fields.at("by_class"), node, time);
    profile_.operations.push_back(std::move(time));
  }

  void read_by_class(const YamlNode& node, const YamlNode& operation, OperationTime& time) {
    if (node.kind != YamlNode::Kind::null) {
      for (const YamlNode& item : items(node, "by_class")) {
        time.by_class.push_back(number(item, "by_class", kSeconds));
      }
    }
    if (std::ssize(time.by_class) != classes_) {
      report(operation, fmt::format("by_class: expected {}, one for each of the classes, found {}",
                                    classes_, time.by_class.size()));
    }
  }

  size_t read_axis(const YamlNode& node) {
    const auto axis = static_cast<size_t>(whole(node, "axis"));
    const size_t axes = profile_.key.mesh.size();
    if (axis >= axes) {
      report(node, fmt::format("axis: {} is none of the mesh, which has {}, counted from 0",
                               node.text, axes));
    }
    return axis;
  }

  // Reads an algorithm. Where the text has none it is automatic.
  CollectiveAlgorithm read_collective_algorithm(const YamlNode& node, Opcode opcode) {
    const std::optional<ReshardKind> collective = spec_of(opcode).reshard;
    if (node.kind == YamlNode::Kind::null || !collective) {
      return CollectiveAlgorithm::automatic;
    }
    const auto known = algorithms_of(*collective);
    const auto found = std::ranges::find_if(
        known, [&](CollectiveAlgorithm algorithm) { return name_of(algorithm) == node.text; });
    if (found == known.end()) {
      report(node, fmt::format("algorithm: {} has no {}", name_of(opcode), node.text));
      return CollectiveAlgorithm::automatic;
    }
    return *found;
  }

  void read_collective(const YamlNode& node) {
    const YamlFields fields = fields_of(node, {"op", "axis", "latency_s", "bandwidth", "table"},
                                        {"algorithm"}, problems_);
    const Opcode opcode = read_opcode(fields.at("op"));
    CollectiveTimes times{.opcode = opcode,
                          .axis = read_axis(fields.at("axis")),
                          .algorithm = read_collective_algorithm(fields.at("algorithm"), opcode),
                          .latency_s = number(fields.at("latency_s"), "latency_s", kSeconds),
                          .bandwidth = number(fields.at("bandwidth"), "bandwidth", kBandwidth)};
    if (collective_of(times.opcode).empty() && times.opcode != Opcode::slice) {
      report(fields.at("op"), fmt::format("op: {} is no collective", name_of(times.opcode)));
    }
    if (times_of(profile_, times.opcode, times.axis, times.algorithm) != nullptr) {
      report(node, fmt::format("collectives: {} along axis {} by {} is there already",
                               name_of(times.opcode), times.axis, name_of(times.algorithm)));
    }
    for (const YamlNode& row : items(fields.at("table"), "table")) {
      const YamlFields cells =
          fields_of(row, {"bytes", "alone_s", "beside_s", "slowdown"}, {}, problems_);
      times.table.push_back({number(cells.at("bytes"), "bytes", kWork),
                             number(cells.at("alone_s"), "alone_s", kSeconds),
                             number(cells.at("beside_s"), "beside_s", kSeconds),
                             number(cells.at("slowdown"), "slowdown", kSlowdown)});
      const MessageTime& last = times.table.back();
      const bool rises =
          times.table.size() < 2 || kRise * (times.table.end() - 2)->bytes <= last.bytes;
      if (last.bytes <= 0.0 || last.alone_s <= 0.0 || last.beside_s <= 0.0 || last.slowdown < 1.0 ||
          !rises) {
        report(row,
               "table: expected rising bytes, by 1 % at least, times above 0 and a slowdown of at "
               "least 1");
      }
    }
    profile_.collectives.push_back(std::move(times));
  }

  double rate(const YamlNode& node, std::string_view key) {
    const double value = number(node, key, kRate);
    if (value == 0.0 && problems_.empty()) {
      report(node, fmt::format("{}: expected a number above 0", key));
    }
    return value;
  }

  // Profiles of older versions have no rates.
  std::optional<DeviceRates> read_rates(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::null) {
      return std::nullopt;
    }
    const YamlFields fields = fields_of(node, {"products", "memory"}, {}, problems_);
    const YamlFields products =
        fields_of(fields.at("products"), {"f32"}, {"bf16", "f16"}, problems_);
    DeviceRates rates;
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const YamlNode& product = products.at(std::string(name_of(dtype)));
      if (product.kind != YamlNode::Kind::null) {
        rates.products[dtype] = rate(product, name_of(dtype));
      }
    }
    rates.memory = rate(fields.at("memory"), "memory");
    return rates;
  }

  void read_rates_by_class(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::null) {
      return;
    }
    for (const YamlNode& item : items(node, "rates_by_class")) {
      profile_.rates_by_class.push_back(read_rates(item).value_or(DeviceRates()));
    }
    if (std::ssize(profile_.rates_by_class) != classes_) {
      report(node, fmt::format("rates_by_class: expected {}, found {}", classes_,
                               profile_.rates_by_class.size()));
    }
  }

  // A profile has no algorithms where the library's first proposal is best for all products.
  void read_algorithms(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::null) {
      return;
    }
    for (const YamlNode& item : items(node, "algorithms")) {
      const YamlFields fields = fields_of(item, {"product", "algorithm"}, {}, problems_);
      const int64_t algorithm = whole(fields.at("algorithm"), "algorithm");
      if (algorithm < 1 || algorithm > kMostAlgorithm) {
        report(fields.at("algorithm"), fmt::format("algorithm: expected 1 to {}", kMostAlgorithm));
      }
      const auto added =
          profile_.algorithms.emplace(whole_list(fields.at("product"), "product"),
                                      static_cast<int>(std::min(algorithm, kMostAlgorithm)));
      if (!added.second) {
        report(item, "algorithms: the product has one already");
      }
    }
  }

  Problems problems_;
  Profile profile_;
  int64_t classes_ = 0;  // their number; 0 without classes
};

}  // namespace

Profile parse_profile(const std::string& text, const std::string& source) {
  return ProfileReader(source).read(text);
}

}  // namespace hidup

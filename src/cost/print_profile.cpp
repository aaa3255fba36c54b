// Writes profiles as YAML.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <string>
#include <vector>

#include "cost/profile.h"
#include "yaml/fields.h"

namespace hidup {
namespace {

std::string print_products(const DeviceRates& rates) {
  std::vector<std::string> products;
  for (const auto& [dtype, rate] : rates.products) {
    products.push_back(fmt::format("{}: {:.4g}", name_of(dtype), rate));
  }
  return fmt::format("{{{}}}", fmt::join(products, ", "));
}

}  // namespace

std::string print_profile(const Profile& profile) {
  std::string text;
  const auto print = [&text](fmt::string_view format, auto&&... values) {
    fmt::vformat_to(std::back_inserter(text), format, fmt::make_format_args(values...));
  };
  const ProfileKey& key = profile.key;
  print("format_version: 1\nbuild: {}\ndevice: {}\nlibraries:\n", yaml_quoted(key.build),
        yaml_quoted(key.device));
  for (const std::string& library : key.libraries) {
    print("  - {}\n", yaml_quoted(library));
  }
  print("mesh:{}\n", profile.shared.empty()
                         ? ""
                         : "  # shared: how much longer messages take with all groups at once");
  for (size_t i = 0; i < key.mesh.size(); ++i) {
    const auto shared = profile.shared.find(i);
    print("  - {{name: {}, size: {}{}}}\n", yaml_word(key.mesh[i].name), key.mesh[i].size,
          shared == profile.shared.end() ? "" : fmt::format(", shared: {:.3g}", shared->second));
  }
  print("hosts: [{}]  # of every rank\nmodel: {}\n", fmt::join(key.hosts, ", "),
        yaml_quoted(profile.model));
  if (!key.classes.empty()) {
    print("classes: [{}]  # of the ranks' devices\n", fmt::join(key.classes, ", "));
  }
  print("launch_s: {:.4g}  # between two instructions of a stream\n", profile.launch_s);
  print("signal_s: {:.4g}  # from a stream to the other\n", profile.signal_s);
  print("overhead_s: {:.4g}  # of a step, outside its instructions\n", profile.overhead_s);
  if (profile.rates) {
    print(
        "rates:  # of a rank: a large product's flop/s, and a copy's bytes/s, read and written\n"
        "  products: {}\n  memory: {:.4g}\n",
        print_products(*profile.rates), profile.rates->memory);
  }
  if (!profile.rates_by_class.empty()) {
    print("rates_by_class:\n");
  }
  for (const DeviceRates& rates : profile.rates_by_class) {
    print("  - {{products: {}, memory: {:.4g}}}\n", print_products(rates), rates.memory);
  }
  print(
      "operations:  # alone; a product's speed counts its flops, that of the others their bytes\n");
  for (const OperationTime& time : profile.operations) {
    const std::string dtype =
        time.work.dtype == DType::f32 ? "" : fmt::format(", dtype: {}", name_of(time.work.dtype));
    const std::string by_class =
        time.by_class.empty() ? ""
                              : fmt::format(", by_class: [{:.4g}]", fmt::join(time.by_class, ", "));
    print("  - {{op: {}, sizes: [{}], flops: {:.8g}, bytes: {:.8g}, seconds: {:.4g}{}{}}}\n",
          name_of(time.opcode), fmt::join(time.work.sizes, ", "), time.work.flops, time.work.bytes,
          time.seconds, by_class, dtype);
  }
  print("collectives:{}  # alone, and beside computation, which they slow by a factor\n",
        profile.collectives.empty() ? " []" : "");
  for (const CollectiveTimes& times : profile.collectives) {
    const std::string algorithm =
        times.algorithm == CollectiveAlgorithm::automatic
            ? ""
            : fmt::format("    algorithm: {}\n", name_of(times.algorithm));
    print("  - op: {}\n    axis: {}\n{}    latency_s: {:.4g}\n    bandwidth: {:.4g}\n    table:\n",
          name_of(times.opcode), times.axis, algorithm, times.latency_s, times.bandwidth);
    for (const MessageTime& row : times.table) {
      print("      - {{bytes: {:.8g}, alone_s: {:.4g}, beside_s: {:.4g}, slowdown: {:.4g}}}\n",
            row.bytes, row.alone_s, row.beside_s, row.slowdown);
    }
  }
  if (!profile.algorithms.empty()) {
    print("algorithms:  # of products that are not done by the library's first proposal\n");
  }
  for (const auto& [product, algorithm] : profile.algorithms) {
    print("  - {{product: [{}], algorithm: {}}}\n", fmt::join(product, ", "), algorithm);
  }
  return text;
}

}  // namespace hidup

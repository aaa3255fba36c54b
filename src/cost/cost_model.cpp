#include "cost/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "core/check.h"
#include "cost/roofline.h"
#include "program/message_parts.h"

namespace hidup {
namespace {

// Returns the amount of work that the instruction's time grows with.
double amount(Opcode opcode, const Work& work) {
  return is_product(opcode) ? work.flops : work.bytes;
}

// Returns the operation that does most of the work.
Opcode main_part(Opcode opcode) {
  return spec_of(opcode).fuses.value_or(opcode);
}

std::vector<double> logarithms(const std::vector<int64_t>& sizes) {
  std::vector<double> logs;
  logs.reserve(sizes.size());
  for (const int64_t size : sizes) {
    logs.push_back(std::log2(static_cast<double>(std::max<int64_t>(size, 1))));
  }
  return logs;
}

double squared_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return sum;
}

// Interpolates y linearly on logarithmic scales between (x0, y0) and (x1, y1), all positive.
double between(double x, double x0, double x1, double y0, double y1) {
  const double part = (std::log(x) - std::log(x0)) / (std::log(x1) - std::log(x0));
  return y0 * std::pow(y1 / y0, part);
}

// Returns the share of its type's rate that a product of `flops` flops reaches.
double share_of(const std::vector<ShareOfRate>& shares, double flops) {
  const auto above = std::ranges::upper_bound(shares, flops, {}, &ShareOfRate::flops);
  if (above == shares.begin()) {
    return shares.front().share;
  }
  const auto below = std::prev(above);
  return above == shares.end()
             ? below->share
             : between(flops, below->flops, above->flops, below->share, above->share);
}

using Tables = std::map<CollectiveAlgorithm, std::vector<MessageTime>>;

MessageTime in_table(const std::vector<MessageTime>& table, double bytes) {
  if (bytes <= table.front().bytes) {
    return table.front();
  }
  if (bytes >= table.back().bytes) {
    MessageTime longer = table.back();
    longer.alone_s *= bytes / longer.bytes;
    longer.beside_s *= bytes / longer.bytes;
    longer.bytes = bytes;
    return longer;
  }
  const auto above = std::ranges::upper_bound(table, bytes, {}, &MessageTime::bytes);
  const auto below = std::prev(above);
  const auto value = [&](double MessageTime::*member) {
    return between(bytes, below->bytes, above->bytes, (*below).*member, (*above).*member);
  };
  return {bytes, value(&MessageTime::alone_s), value(&MessageTime::beside_s),
          value(&MessageTime::slowdown)};
}

// Switches to another algorithm, from the middle between two timed sizes on, where that is clearly
// faster at the second size than the algorithm chosen before.
std::vector<AlgorithmChoice> fastest(ReshardKind collective, size_t axis, const Tables& tables) {
  constexpr double kClear = 0.9;  // of the time of the chosen algorithm
  std::vector<AlgorithmChoice> choices;
  auto chosen = CollectiveAlgorithm::automatic;
  double below = 0.0;
  for (const MessageTime& row : tables.at(chosen)) {
    const auto seconds = [&](CollectiveAlgorithm algorithm) {
      const MessageTime time = in_table(tables.at(algorithm), row.bytes);
      return time.alone_s + time.beside_s;
    };
    CollectiveAlgorithm best = chosen;
    for (const auto& [algorithm, table] : tables) {
      best = seconds(algorithm) < seconds(best) ? algorithm : best;
    }
    if (seconds(best) < kClear * seconds(chosen)) {
      chosen = best;
      choices.push_back({collective, axis, std::round(std::sqrt(below * row.bytes)), chosen});
    }
    below = row.bytes;
  }
  return choices;
}

}  // namespace

CostModel::CostModel(const Profile& profile)
    : launch_s_(profile.launch_s),
      signal_s_(profile.signal_s),
      overhead_s_(profile.overhead_s),
      rings_use_all_links_(profile.rings_use_all_links),
      efficiency_(profile.efficiency) {
  check(!profile.operations.empty(), "a profile without operations");
  for (const OperationTime& time : profile.operations) {
    const double work = amount(time.opcode, time.work);
    if (work > 0.0 && time.seconds > 0.0) {
      operations_[{time.opcode, time.work.dtype}].push_back(
          {logarithms(time.work.sizes), std::log2(time.seconds / work)});
    }
  }
  for (const CollectiveTimes& times : profile.collectives) {
    if (!times.table.empty()) {
      collectives_[{times.opcode, times.axis}][times.algorithm] = times.table;
    }
  }
  for (const auto& [which, tables] : collectives_) {
    if (tables.size() > 1 && tables.contains(CollectiveAlgorithm::automatic)) {
      const auto found = fastest(*spec_of(which.first).reshard, which.second, tables);
      algorithms_.insert(algorithms_.end(), found.begin(), found.end());
    }
  }
}

CostModel CostModel::slower(double factor) const {
  CostModel costs = *this;
  costs.slower_ *= factor;
  return costs;
}

const std::vector<CostModel::Sample>& CostModel::samples_of(Opcode opcode, DType dtype) const {
  for (const Opcode measured : {opcode, main_part(opcode)}) {
    const auto found = operations_.find({measured, dtype});
    if (found != operations_.end()) {
      return found->second;
    }
  }
  const auto first_where = [&](auto fits) {
    return std::ranges::find_if(operations_, [&](const auto& item) { return fits(item.first); });
  };
  auto alike = first_where(
      [&](const auto& key) { return key.first == opcode || key.first == main_part(opcode); });
  const auto is_alike = [&](const auto& key) {
    return is_product(key.first) == is_product(opcode);
  };
  if (alike == operations_.end()) {
    alike = first_where([&](const auto& key) { return is_alike(key) && key.second == dtype; });
  }
  if (alike == operations_.end()) {
    alike = first_where(is_alike);
  }
  return alike != operations_.end() ? alike->second : operations_.begin()->second;
}

double CostModel::operation(Opcode opcode, const Work& work) const {
  const double load = amount(opcode, work);
  if (load <= 0.0) {
    return 0.0;
  }
  // Averages the pace of the nearest samples, weighted by the inverse square of their distance.
  constexpr size_t kNearest = 4;
  std::array<std::pair<double, double>, kNearest> nearest;  // squared distance, pace
  nearest.fill({std::numeric_limits<double>::max(), 0.0});
  const std::vector<double> sizes = logarithms(work.sizes);
  for (const Sample& sample : samples_of(opcode, work.dtype)) {
    const double distance = squared_distance(sizes, sample.sizes);
    if (distance < nearest.back().first) {
      nearest.back() = {distance, sample.pace};
      std::ranges::sort(nearest);
    }
  }
  constexpr double kSame = 1e-6;
  double pace = 0.0;
  double weights = 0.0;
  for (const auto& [distance, sample_pace] : nearest) {
    const double weight = 1.0 / (distance + kSame);
    pace += weight * sample_pace;
    weights += weight;
  }
  const double seconds = slower_ * load * std::exp2(pace / weights);
  const auto shares = efficiency_.find(work.dtype);
  return is_product(opcode) && shares != efficiency_.end()
             ? seconds / share_of(shares->second, load)
             : seconds;
}

std::vector<MessagePart> CostModel::timed_parts(const Mesh& mesh, const Instruction& instruction,
                                                double bytes) const {
  std::vector<MessagePart> parts = message_parts(mesh, instruction, bytes);
  if (!run_at_once(instruction)) {
    return parts;
  }
  double inside = 1.0;  // ranks along the axes inside the part's axis, later in `parts`
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    part->bytes *= rings_use_all_links_ ? 1.0 : inside;
    inside *= static_cast<double>(mesh.at(part->axis).size);
  }
  const auto longest = std::ranges::max_element(parts, {}, [&](const MessagePart& part) {
    return collective(part.opcode, part.axis, part.bytes, part.algorithm).alone_s;
  });
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    part->bytes = part == longest ? part->bytes : 0.0;
  }
  return parts;
}

MessageTime CostModel::message(const Mesh& mesh, const Instruction& instruction,
                               double bytes) const {
  MessageTime all{.bytes = bytes, .slowdown = 0.0};
  for (const MessagePart& part : timed_parts(mesh, instruction, bytes)) {
    const MessageTime time = collective(part.opcode, part.axis, part.bytes, part.algorithm);
    all.alone_s += part.times * time.alone_s;
    all.beside_s += part.times * time.beside_s;
    all.slowdown += part.times * time.slowdown * time.beside_s;
  }
  all.slowdown = all.beside_s > 0.0 ? all.slowdown / all.beside_s : 1.0;
  return all;
}

const CostModel::Tables* CostModel::tables_of(Opcode opcode, size_t axis) const {
  auto found = collectives_.find({opcode, axis});
  if (found == collectives_.end() && opcode == Opcode::move) {  // sends as much
    found = collectives_.find({Opcode::broadcast, axis});
  }
  return found == collectives_.end() ? nullptr : &found->second;
}

MessageTime CostModel::collective(Opcode opcode, size_t axis, double bytes,
                                  CollectiveAlgorithm algorithm) const {
  const Tables* tables = tables_of(opcode, axis);
  if (tables == nullptr) {
    return {.bytes = bytes};
  }
  auto found = tables->find(algorithm);
  found = found == tables->end() ? tables->begin() : found;  // automatic comes first
  return in_table(found->second, bytes);
}

}  // namespace hidup

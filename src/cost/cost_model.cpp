#include "cost/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "cost/message_parts.h"

namespace hidup {
namespace {

// What the time of the instruction grows with.
double amount(Opcode opcode, const Work& work) {
  return is_product(opcode) ? work.flops : work.bytes;
}

// What most of its work is.
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

// Of y between (x0, y0) and (x1, y1), all positive, straight on logarithmic scales.
double between(double x, double x0, double x1, double y0, double y1) {
  const double part = (std::log(x) - std::log(x0)) / (std::log(x1) - std::log(x0));
  return y0 * std::pow(y1 / y0, part);
}

}  // namespace

double paced_bytes(const Program& program, const Instruction& instruction, int64_t rank) {
  const auto bytes_of = [&](const std::vector<ValueId>& values) {
    double bytes = 0.0;
    for (const ValueId value : values) {
      bytes += program.value(value).holds.empty()
                   ? static_cast<double>(program.local_bytes(value, rank))
                   : 0.0;
    }
    return bytes;
  };
  const double in = bytes_of(instruction.inputs);
  const double out = bytes_of(instruction.outputs);
  const auto axis = static_cast<size_t>(instruction.axis);
  auto ranks = static_cast<double>(instruction.group.empty()
                                       ? program.mesh.at(axis).size
                                       : static_cast<int64_t>(instruction.group.size()));
  for (const int inner : instruction.inner_axes) {
    ranks *= static_cast<double>(program.mesh.at(static_cast<size_t>(inner)).size);
  }
  if (instruction.opcode == Opcode::all_gather) {
    return std::max(out, ranks * in);
  }
  if (instruction.opcode == Opcode::reduce_scatter) {
    return std::max(in, ranks * out);
  }
  return std::max(in, out);
}

CostModel::CostModel(const Profile& profile)
    : launch_s_(profile.launch_s), signal_s_(profile.signal_s), overhead_s_(profile.overhead_s) {
  check(!profile.operations.empty(), "a profile without operations");
  for (const OperationTime& time : profile.operations) {
    const double work = amount(time.opcode, time.work);
    if (work > 0.0 && time.seconds > 0.0) {
      operations_[{time.opcode, time.work.dtype}].push_back(
          {logarithms(time.work.sizes), std::log2(time.seconds / work)});
    }
  }
  for (const CollectiveTimes& times : profile.collectives) {
    collectives_[{times.opcode, times.axis}] = times.table;
  }
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
  if (alike == operations_.end()) {
    alike =
        first_where([&](const auto& key) { return is_product(key.first) == is_product(opcode); });
  }
  return alike != operations_.end() ? alike->second : operations_.begin()->second;
}

double CostModel::operation(Opcode opcode, const Work& work) const {
  const double load = amount(opcode, work);
  if (load <= 0.0) {
    return 0.0;
  }
  // The mean pace of the nearest samples, by the inverse square of their distance.
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
  return load * std::exp2(pace / weights);
}

MessageTime CostModel::message(const Mesh& mesh, const Instruction& instruction,
                               double bytes) const {
  MessageTime all{.bytes = bytes, .slowdown = 0.0};
  for (const MessagePart& part : message_parts(mesh, instruction, bytes)) {
    const MessageTime time = collective(part.opcode, part.axis, part.bytes);
    all.alone_s += time.alone_s;
    all.beside_s += time.beside_s;
    all.slowdown += time.slowdown * time.beside_s;
  }
  all.slowdown = all.beside_s > 0.0 ? all.slowdown / all.beside_s : 1.0;
  return all;
}

MessageTime CostModel::collective(Opcode opcode, size_t axis, double bytes) const {
  auto found = collectives_.find({opcode, axis});
  if (found == collectives_.end() && opcode == Opcode::move) {  // as one that sends as much
    found = collectives_.find({Opcode::broadcast, axis});
  }
  if (found == collectives_.end() || found->second.empty()) {
    return {.bytes = bytes};
  }
  const std::vector<MessageTime>& table = found->second;
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

}  // namespace hidup

#include "io/timing_layout.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <system_error>
#include <utility>

namespace hidup {
namespace {

constexpr hsize_t kChunkElements = 8192;  // 64 KiB at most
constexpr hsize_t kChunkRows = 1024;

// Returns the rows per chunk of an array with `width` values per row.
hsize_t chunk_rows(hsize_t width) {
  return std::clamp(kChunkElements / width, hsize_t{1}, kChunkRows);
}

// Returns the values per row.
hsize_t width_of(const hdf5::Extents& row) {
  return std::accumulate(row.begin(), row.end(), hsize_t{1}, std::multiplies<>());
}

// Returns the extents of `rows` rows.
hdf5::Extents extents_of(hsize_t rows, const hdf5::Extents& row) {
  hdf5::Extents extents = {rows};
  extents.insert(extents.end(), row.begin(), row.end());
  return extents;
}

// Returns one member of all rows.
template <typename Row, typename T>
std::vector<T> gather(const std::vector<Row>& rows, T Row::*member) {
  std::vector<T> values;
  values.reserve(rows.size());
  for (const Row& row : rows) {
    values.push_back(row.*member);
  }
  return values;
}

}  // namespace

TimingLayout::TimingLayout(const std::string& path, bool overwrite, const TimingHeader& header)
    : place_(path), file_(place_) {
  try {
    write_header(header);
    write_continuation(path, header.run);
    add_columns(static_cast<hsize_t>(header.run.world_size));
    if (header.pipeline) {
      add_column<double>("/ranks/idle_s", "s", {static_cast<hsize_t>(header.run.world_size)});
    }
    if (header.experts.layers > 0) {
      add_expert_columns(header.experts);
    }
    if (header.validation) {
      add_validation_columns();
    }
    if (header.images) {
      add_accuracy_columns(header.validation);
    }
    if (!header.causes.empty()) {
      add_straggler_columns(header.causes);
    }
    if (!header.shares.empty()) {
      add_adapt_columns(header.shares);
    }
    if (header.emulation) {
      add_emulation_columns(*header.emulation, static_cast<hsize_t>(header.run.world_size));
    }
    file_.start_swmr();
    place_.take_name(overwrite);  // readers can open it now
  } catch (...) {
    abandon();
    throw;
  }
}

void TimingLayout::write_header(const TimingHeader& header) {
  for (const char* group : {"input", "strategy", "iterations", "ranks", "program", "timeline"}) {
    file_.create_group(group);
  }
  write_run(header.run);
  write_text("/input/model_deck", header.inputs.model_deck);
  write_text("/input/cluster_deck", header.inputs.cluster_deck);
  write_text("/input/resolved", header.inputs.resolved);
  write_text("/strategy/text", header.strategy.text);
  const hdf5::Handle strategy(
      file_.checked(H5Oopen(file_.id(), "/strategy", H5P_DEFAULT), "open /strategy"));
  file_.set_attribute(strategy.get(), "name", header.strategy.name);
  file_.set_attribute(strategy.get(), "hash", header.strategy.hash);
  file_.set_attribute(strategy.get(), "search_s", header.strategy.search_s);
  if (header.strategy.floor_s > 0.0) {
    file_.set_attribute(strategy.get(), "floor_s", header.strategy.floor_s);
  }
  write_program(header.program);
  if (header.prediction) {
    write_prediction(*header.prediction);
  }
  write_array("/ranks/peak_bytes", "bytes", header.memory.peak_bytes);
  write_array("/ranks/parameter_bytes", "bytes", header.memory.parameter_bytes);
}

void TimingLayout::write_run(const RunAttributes& run) {
  const hid_t root = file_.id();
  file_.set_attribute(root, "format_version", kTimingFormatVersion);
  file_.set_attribute(root, "program_version", run.program_version);
  file_.set_attribute(root, "git_commit", run.git_commit);
  file_.set_attribute(root, "git_dirty", int64_t{run.git_dirty});
  file_.set_attribute(root, "command_line", run.command_line);
  file_.set_attribute(root, "started_at", run.started_at);
  file_.set_attribute(root, "model", run.model);
  file_.set_attribute(root, "world_size", run.world_size);
  file_.set_attribute(root, "device", run.device);
  file_.set_attribute(root, "hostnames", run.hostnames);
  if (!run.mpi_ranks.empty()) {
    file_.set_attribute(root, "mpi_ranks", run.mpi_ranks);
  }
  file_.set_attribute(root, "libraries", run.libraries);
  if (!run.arithmetic.empty()) {
    file_.set_attribute(root, "arithmetic", run.arithmetic);
  }
  file_.set_attribute(root, "environment", run.environment);
  if (run.unigram_entropy) {
    file_.set_attribute(root, "unigram_entropy", *run.unigram_entropy);
  }
}

void TimingLayout::write_continuation(const std::string& path, const RunAttributes& run) {
  namespace fs = std::filesystem;
  if (run.continued_from) {
    std::error_code ignored;  // the path then stays as it is
    const fs::path folder = fs::absolute(path, ignored).parent_path();
    const fs::path earlier = fs::proximate(*run.continued_from, folder, ignored);
    file_.set_attribute(file_.id(), "continued_from",
                        earlier.empty() ? *run.continued_from : earlier.string());
  }
  if (run.continued_at_step) {
    file_.set_attribute(file_.id(), "continued_at_step", *run.continued_at_step);
  }
}

void TimingLayout::write_program(const ProgramInfo& program) {
  const std::vector<ProgramRow>& rows = program.rows;
  write_text("/program/text", program.text);
  write_array("/program/name", gather(rows, &ProgramRow::name));
  write_array("/program/kind", gather(rows, &ProgramRow::kind));
  write_array("/program/stream", gather(rows, &ProgramRow::stream));
  write_array("/program/microbatch", "1", gather(rows, &ProgramRow::microbatch));
  write_array("/program/phase", gather(rows, &ProgramRow::phase));
  write_array("/program/collective", gather(rows, &ProgramRow::collective));
  write_array("/program/algorithm", gather(rows, &ProgramRow::algorithm));
  write_array("/program/flops", "flop", gather(rows, &ProgramRow::flops));
  write_array("/program/bytes", "bytes", gather(rows, &ProgramRow::bytes));
  if (!program.distinct.empty()) {
    write_distinct(program);
  }
}

void TimingLayout::write_distinct(const ProgramInfo& program) {
  file_.create_group("program/distinct");
  write_array("/program/distinct/rank", "1", gather(program.distinct, &RankWork::rank));
  const hsize_t count = program.rows.size();
  add_column<int64_t>("/program/distinct/flops", "flop", {count});
  add_column<int64_t>("/program/distinct/bytes", "bytes", {count});
  for (const RankWork& work : program.distinct) {
    append("/program/distinct/flops", work.flops);
    append("/program/distinct/bytes", work.bytes);
  }
}

void TimingLayout::write_prediction(const PredictionInfo& prediction) {
  const hdf5::Handle group(
      file_.checked(H5Oopen(file_.id(), "/strategy", H5P_DEFAULT), "open /strategy"));
  file_.set_attribute(group.get(), "predicted_iteration_s", prediction.iteration_s);
  file_.set_attribute(group.get(), "predicted_compute_s", prediction.compute_s);
  file_.set_attribute(group.get(), "predicted_comm_s", prediction.comm_s);
  file_.set_attribute(group.get(), "predicted_exposed_comm_s", prediction.exposed_comm_s);
  file_.set_attribute(group.get(), "predicted_peak_bytes", prediction.peak_bytes);
  write_array("/program/predicted_start_s", "s", prediction.start_s);
  write_array("/program/predicted_s", "s", prediction.length_s);
}

void TimingLayout::add_columns(hsize_t world_size) {
  add_column<int64_t>("/iterations/step", "1");
  add_column<double>("/iterations/wall_s", "s");
  add_column<double>("/iterations/loss", "nat");
  add_column<int64_t>("/iterations/tokens", "tokens");
  add_column<double>("/iterations/lr", "1");
  add_column<double>("/iterations/grad_norm", "1");
  add_column<int64_t>("/iterations/skipped", "1");
  add_column<double>("/ranks/compute_s", "s", {world_size});
  add_column<double>("/ranks/comm_s", "s", {world_size});
  add_column<double>("/ranks/exposed_comm_s", "s", {world_size});
  add_column<int64_t>("/timeline/step", "1");
  add_column<int64_t>("/timeline/rank", "1");
  add_column<int64_t>("/timeline/instruction", "1");
  add_column<double>("/timeline/start_s", "s");
  add_column<double>("/timeline/end_s", "s");
}

void TimingLayout::add_expert_columns(const ExpertLayers& experts) {
  file_.create_group("experts");
  const hdf5::Handle group(
      file_.checked(H5Oopen(file_.id(), "/experts", H5P_DEFAULT), "open /experts"));
  file_.set_attribute(group.get(), "layers", experts.layers);
  if (experts.balance_loss) {
    add_column<double>("/iterations/balance_loss", "1");
  }
  if (experts.z_loss) {
    add_column<double>("/iterations/z_loss", "1");
  }
  const hdf5::Extents row = {static_cast<hsize_t>(experts.layers),
                             static_cast<hsize_t>(experts.experts)};
  add_column<int64_t>("/experts/tokens", "tokens", row);
  add_column<int64_t>("/experts/dropped", "tokens", row);
}

void TimingLayout::add_validation_columns() {
  file_.create_group("validation");
  add_column<int64_t>("/validation/step", "1");
  add_column<double>("/validation/loss", "nat");
}

void TimingLayout::add_accuracy_columns(bool validation) {
  accuracy_ = true;
  add_column<double>("/iterations/accuracy", "1");
  if (validation) {
    add_column<double>("/validation/accuracy", "1");
  }
}

void TimingLayout::add_straggler_columns(const std::vector<std::string>& causes) {
  file_.create_group("stragglers");
  const hdf5::Handle group(
      file_.checked(H5Oopen(file_.id(), "/stragglers", H5P_DEFAULT), "open /stragglers"));
  file_.set_attribute(group.get(), "causes", causes);
  add_column<int64_t>("/stragglers/step", "1");
  add_column<int64_t>("/stragglers/since", "1");
  add_column<int64_t>("/stragglers/rank", "1");
  add_column<int64_t>("/stragglers/cause", "1");
  add_column<double>("/stragglers/slower_by", "1");
  add_column<int64_t>("/stragglers/over", "1");
}

void TimingLayout::add_adapt_columns(const std::vector<double>& shares) {
  file_.create_group("adapt");
  write_array("/adapt/shares_at_start", "1", shares);
  add_column<int64_t>("/adapt/step", "1");
  add_column<int64_t>("/adapt/last", "1");
  add_column<double>("/adapt/before_s", "s");
  add_column<double>("/adapt/after_s", "s");
  add_column<double>("/adapt/spread_s", "s");
  add_column<int64_t>("/adapt/kept", "1");
  add_column<double>("/adapt/shares", "1", {shares.size()});
}

void TimingLayout::add_emulation_columns(const EmulationInfo& emulation, hsize_t world_size) {
  file_.create_group("emulation");
  const hdf5::Handle group(
      file_.checked(H5Oopen(file_.id(), "/emulation", H5P_DEFAULT), "open /emulation"));
  file_.set_attribute(group.get(), "dilation", emulation.dilation);
  add_column<int64_t>("/emulation/late_instructions", "1", {world_size});
  add_column<double>("/emulation/wall_s", "s");
  add_column<double>("/emulation/moved_s", "s");
}

void TimingLayout::write(const TimingRows& rows) {
  append("/iterations/step", gather(rows.iterations, &Iteration::step));
  append("/iterations/wall_s", gather(rows.iterations, &Iteration::wall_s));
  append("/iterations/loss", gather(rows.iterations, &Iteration::loss));
  append("/iterations/tokens", gather(rows.iterations, &Iteration::tokens));
  append("/iterations/lr", gather(rows.iterations, &Iteration::lr));
  append("/iterations/grad_norm", gather(rows.iterations, &Iteration::grad_norm));
  const auto skipped = gather(rows.iterations, &Iteration::skipped);
  append("/iterations/skipped", std::vector<int64_t>(skipped.begin(), skipped.end()));
  if (columns_.contains("/iterations/balance_loss")) {
    append("/iterations/balance_loss", gather(rows.iterations, &Iteration::balance_loss));
  }
  if (columns_.contains("/iterations/z_loss")) {
    append("/iterations/z_loss", gather(rows.iterations, &Iteration::z_loss));
  }
  append("/validation/step", gather(rows.validation, &ValidationRow::step));
  append("/validation/loss", gather(rows.validation, &ValidationRow::loss));
  if (accuracy_) {
    append("/iterations/accuracy", gather(rows.iterations, &Iteration::accuracy));
    append("/validation/accuracy", gather(rows.validation, &ValidationRow::accuracy));
  }
  append("/ranks/compute_s", rows.compute_s);
  append("/ranks/comm_s", rows.comm_s);
  append("/ranks/exposed_comm_s", rows.exposed_comm_s);
  append("/ranks/idle_s", rows.idle_s);
  append("/experts/tokens", rows.expert_tokens);
  append("/experts/dropped", rows.expert_dropped);
  append("/emulation/late_instructions", rows.late_instructions);
  append("/emulation/wall_s", rows.emulation_wall_s);
  append("/emulation/moved_s", rows.emulation_moved_s);
  append("/timeline/step", gather(rows.timeline, &TimelineRow::step));
  append("/timeline/rank", gather(rows.timeline, &TimelineRow::rank));
  append("/timeline/instruction", gather(rows.timeline, &TimelineRow::instruction));
  append("/timeline/start_s", gather(rows.timeline, &TimelineRow::start_s));
  append("/timeline/end_s", gather(rows.timeline, &TimelineRow::end_s));
  append("/stragglers/step", gather(rows.stragglers, &StragglerRow::step));
  append("/stragglers/since", gather(rows.stragglers, &StragglerRow::since));
  append("/stragglers/rank", gather(rows.stragglers, &StragglerRow::rank));
  append("/stragglers/cause", gather(rows.stragglers, &StragglerRow::cause));
  append("/stragglers/slower_by", gather(rows.stragglers, &StragglerRow::slower_by));
  const auto over = gather(rows.stragglers, &StragglerRow::over);
  append("/stragglers/over", std::vector<int64_t>(over.begin(), over.end()));
  append("/adapt/step", gather(rows.adapt, &AdaptRow::step));
  append("/adapt/last", gather(rows.adapt, &AdaptRow::last));
  append("/adapt/before_s", gather(rows.adapt, &AdaptRow::before_s));
  append("/adapt/after_s", gather(rows.adapt, &AdaptRow::after_s));
  append("/adapt/spread_s", gather(rows.adapt, &AdaptRow::spread_s));
  const auto kept = gather(rows.adapt, &AdaptRow::kept);
  append("/adapt/kept", std::vector<int64_t>(kept.begin(), kept.end()));
  for (const AdaptRow& row : rows.adapt) {
    append("/adapt/shares", row.shares);
  }
  file_.flush();
}

void TimingLayout::close() {
  columns_.clear();
  file_.close();
  place_.check_name();
}

void TimingLayout::abandon() {
  for (auto& [name, column] : columns_) {
    column.dataset.release();
  }
  file_.abandon();
}

void TimingLayout::write_text(const std::string& name, const std::string& text) {
  const char* pointer = text.c_str();
  set_unit(file_.write_dataset(name, file_.string_type(), {}, &pointer), "");
}

void TimingLayout::write_array(const std::string& name, const std::string& unit, hid_t type,
                               const void* data, hsize_t count) {
  const hdf5::Handle dataset = file_.create_growing(name, type, {count}, {chunk_rows(1)});
  set_unit(dataset, unit);
  if (count > 0) {
    file_.checked(H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "write {}",
                  name);
  }
}

template <typename T>
void TimingLayout::add_column(const std::string& name, const std::string& unit,
                              const hdf5::Extents& row) {
  Column column;
  column.type = hdf5::native_type<T>();
  column.row = row;
  column.dataset = file_.create_growing(name, column.type, extents_of(0, row),
                                        extents_of(chunk_rows(width_of(row)), row));
  set_unit(column.dataset, unit);
  columns_.emplace(name, std::move(column));
}

template <typename T>
void TimingLayout::append(const std::string& name, const std::vector<T>& values) {
  if (values.empty()) {
    return;
  }
  Column& column = columns_.at(name);
  const hid_t dataset = column.dataset.get();
  const hsize_t rows = values.size() / width_of(column.row);
  const hdf5::Extents start = extents_of(column.rows, hdf5::Extents(column.row.size(), 0));
  const hdf5::Extents count = extents_of(rows, column.row);
  const hdf5::Extents total = extents_of(column.rows + rows, column.row);
  file_.checked(H5Dset_extent(dataset, total.data()), "extend {}", name);
  const hdf5::Handle target(file_.checked(H5Dget_space(dataset), "append to {}", name));
  file_.checked(H5Sselect_hyperslab(target.get(), H5S_SELECT_SET, start.data(), nullptr,
                                    count.data(), nullptr),
                "append to {}", name);
  const hdf5::Handle source(
      file_.checked(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                    "append to {}", name));
  file_.checked(
      H5Dwrite(dataset, column.type, source.get(), target.get(), H5P_DEFAULT, values.data()),
      "append to {}", name);
  column.rows += rows;
}

}  // namespace hidup

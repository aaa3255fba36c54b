// The datasets and attributes of a timing file; internal to src/io.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/hdf5.h"
#include "io/timing_file.h"

namespace hidup {

// An array that grows row by row. Its last chunk is rewritten in place.
struct Column {
  hdf5::Handle dataset;
  hid_t type = H5I_INVALID_HID;
  hdf5::Extents row;  // extents of a row; none: one value
  hsize_t rows = 0;
};

// Rows that were appended and are not written yet.
struct TimingRows {
  std::vector<Iteration> iterations;
  std::vector<double> compute_s;  // [iterations, world], as the next two
  std::vector<double> comm_s;
  std::vector<double> exposed_comm_s;
  std::vector<double> idle_s;          // [iterations, world]; empty without a pipeline
  std::vector<int64_t> expert_tokens;  // [iterations, layers, experts], as the next one
  std::vector<int64_t> expert_dropped;
  std::vector<double> emulation_wall_s;  // [iterations], as the next one; empty without emulation
  std::vector<double> emulation_moved_s;
  std::vector<int64_t> late_instructions;  // [iterations, world]
  std::vector<ValidationRow> validation;
  std::vector<TimelineRow> timeline;
  std::vector<StragglerRow> stragglers;
  std::vector<AdaptRow> adapt;

  bool empty() const {
    return iterations.empty() && validation.empty() && timeline.empty() && stragglers.empty() &&
           adapt.empty();
  }
};

// An open timing file. Hold hdf5::lock_library() around all use, its destructor too.
class TimingLayout {
 public:
  // Creates a NewFile that takes its name when it has its header.
  TimingLayout(const std::string& path, bool overwrite, const TimingHeader& header);

  // Appends the rows and makes them visible to readers.
  void write(const TimingRows& rows);
  // Flushes the written rows to the disk.
  void sync() const { place_.flush(); }
  // Closes the file and checks that it still has its name (NewFile::check_name()).
  void close();
  // Gives up without closing anything; see hdf5::File::abandon().
  void abandon();

 private:
  void write_header(const TimingHeader& header);
  void write_run(const RunAttributes& run);
  void write_continuation(const std::string& path, const RunAttributes& run);
  void write_program(const ProgramInfo& program);
  void write_distinct(const ProgramInfo& program);
  void write_prediction(const PredictionInfo& prediction);
  void add_columns(hsize_t world_size);
  void add_expert_columns(const ExpertLayers& experts);
  void add_validation_columns();
  void add_accuracy_columns(bool validation);
  void add_straggler_columns(const std::vector<std::string>& causes);
  void add_adapt_columns(const std::vector<double>& shares);
  void add_emulation_columns(const EmulationInfo& emulation, hsize_t world_size);

  void set_unit(const hdf5::Handle& dataset, const std::string& unit) {
    file_.set_attribute(dataset.get(), "unit", unit);
  }
  void write_text(const std::string& name, const std::string& text);
  // Writes an array that is complete, though its dataset could grow.
  void write_array(const std::string& name, const std::string& unit, hid_t type, const void* data,
                   hsize_t count);
  template <typename T>
  void write_array(const std::string& name, const std::string& unit, const std::vector<T>& values) {
    write_array(name, unit, hdf5::native_type<T>(), values.data(), values.size());
  }
  void write_array(const std::string& name, const std::vector<std::string>& values) {
    write_array(name, "", file_.string_type(), hdf5::c_strings(values).data(), values.size());
  }

  template <typename T>
  void add_column(const std::string& name, const std::string& unit, const hdf5::Extents& row = {});
  template <typename T>
  void append(const std::string& name, const std::vector<T>& values);

  NewFile place_;
  hdf5::File file_;
  std::map<std::string, Column> columns_;
  bool accuracy_ = false;  // the file has accuracy columns
};

}  // namespace hidup

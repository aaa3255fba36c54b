// hidup export: writes a checkpoint's parameters in formats of other programs.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "app/initial.h"
#include "app/job.h"
#include "app/planning.h"
#include "app/pretrained.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/open_file.h"
#include "comm/collective.h"
#include "comm/mpi_session.h"
#include "commands/commands.h"
#include "core/convert.h"
#include "core/log.h"
#include "core/new_file.h"
#include "core/units.h"
#include "deck/model_deck.h"
#include "interchange/config.h"
#include "interchange/match.h"
#include "io/output_path.h"

namespace hidup {
namespace {

namespace fs = std::filesystem;

// Returns the chosen names, else the first of the model's family, else our own.
const NameMap& names_for(const std::string& chosen, const Deck& deck) {
  if (!chosen.empty()) {
    const NameMap& map = *find_name_map(chosen);
    check_family(map, deck);
    return map;
  }
  for (const std::string& name : name_maps()) {
    const NameMap& map = *find_name_map(name);
    if (!map.family.empty() && fits_model(map, deck)) {
      return map;
    }
  }
  return *find_name_map("hidup");
}

// A parameter, or a part of it, to export from the checkpoint to the file.
struct Exported {
  size_t stored = 0;  // tensor of the checkpoint
  TheirTensor theirs;
};

// Returns an index of the first dimension, or all (-1).
Region part_of(const Shape& shape, int64_t index) {
  Region region{.dims = static_cast<int>(shape.size())};
  std::ranges::copy(shape, region.extent);
  std::ranges::copy(shape, region.global);
  if (index >= 0) {
    region.start[0] = index;
    region.extent[0] = 1;
  }
  return region;
}

class ExportRun {
 public:
  ExportRun(const ExportOptions& options, Communicator& world)
      : options_(options), world_(world), dtype_(element_type(options.precision)) {}

  ExitCode go() {
    collectively(world_, [&] { check_names(options_.names); });
    checkpoint_.emplace(open_checkpoint(world_, options_.checkpoint));
    collectively(world_, [&] {
      const Deck deck = deck_of(*checkpoint_);
      const NameMap& names = names_for(options_.names, deck);
      for (const StoredParameter& parameter : stored_parameters(*checkpoint_, deck)) {
        const Shape& shape = checkpoint_->tensors()[parameter.tensor].shape;
        for (TheirTensor& theirs : their_tensors(names, parameter.name, shape)) {
          parameters_.push_back({parameter.tensor, std::move(theirs)});
        }
      }
      config_ = config_text(names, deck, deck.model->vocab.value());
      lay_out();
    });
    open_outputs();
    write_tensors();
    collectively(world_, [&] {
      if (world_.rank() == 0) {
        file_->take_name(options_.overwrite);
        if (is_folder() && !config_.empty()) {
          write_text_file(config_path(), config_, options_.overwrite);
        }
      }
    });
    log::info("{}: {} tensors, {}", tensors_path(), parameters_.size(), format_bytes(bytes_));
    return ExitCode::done;
  }

 private:
  bool is_folder() const { return fs::path(options_.out).extension() != ".safetensors"; }
  std::string tensors_path() const {
    return is_folder() ? (fs::path(options_.out) / "model.safetensors").string() : options_.out;
  }
  std::string config_path() const { return (fs::path(options_.out) / "config.json").string(); }

  void lay_out() {
    for (const Exported& parameter : parameters_) {
      tensors_.push_back(
          {.name = parameter.theirs.name, .dtype = dtype_, .shape = parameter.theirs.shape});
    }
    header_ = safetensors_header(tensors_, {{"format", "pt"}});
    bytes_ = tensors_.back().begin + tensors_.back().bytes;
  }

  void open_outputs() {
    std::string location;
    collectively(world_, [&] {
      if (world_.rank() != 0) {
        return;
      }
      std::vector<NamedFile> outputs = {{"--out", tensors_path()}};
      if (is_folder() && !config_.empty()) {
        outputs.push_back({"--out's config.json", config_path()});
      }
      prepare_outputs(outputs, {{"the checkpoint", options_.checkpoint}}, options_.overwrite);
      file_.emplace(tensors_path());
      file_->write(header_);
      location = file_->location();
    });
    location = world_.broadcast(location);
    collectively(world_,
                 [&] { bytes_of_file_.emplace(location, tensors_path(), OpenFile::For::writing); });
  }

  // Returns this rank's tensors: each one in turn goes to the rank with the fewest bytes so far.
  std::vector<size_t> own_share() const {
    std::vector<int64_t> bytes(static_cast<size_t>(world_.size()));
    std::vector<size_t> own;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const auto least = std::ranges::min_element(bytes);
      *least += tensors_[i].bytes;
      if (least - bytes.begin() == world_.rank()) {
        own.push_back(i);
      }
    }
    return own;
  }

  // Holds one tensor at a time in the memory of each rank.
  void write_tensors() {
    const std::vector<size_t> own = own_share();
    const size_t rounds = std::ranges::max(all_gather_value(world_, own.size()));
    for (size_t round = 0; round < rounds; ++round) {
      std::vector<std::byte> data;
      std::vector<BoxRequest> wanted;
      if (round < own.size()) {
        const size_t stored = parameters_[own[round]].stored;
        const StoredTensor& tensor = checkpoint_->tensors()[stored];
        const Region box = part_of(tensor.shape, parameters_[own[round]].theirs.part);
        data.resize(static_cast<size_t>(box.elements() * size_of(tensor.dtype)));
        wanted.push_back({stored, box, data.data()});
      }
      read_boxes(world_, *checkpoint_, wanted);
      collectively(world_, [&] {
        if (!wanted.empty()) {
          write(own[round], std::move(data));
        }
      });
    }
    collectively(world_, [&] { bytes_of_file_->flush(); });
  }

  void write(size_t i, std::vector<std::byte> data) const {
    const DType stored = checkpoint_->tensors()[parameters_[i].stored].dtype;
    bytes_of_file_->write(
        tensors_[i].begin,
        as_theirs(parameters_[i].theirs, converted(std::move(data), stored, dtype_), dtype_));
  }

  const ExportOptions& options_;
  Communicator& world_;
  DType dtype_;
  std::optional<CheckpointFile> checkpoint_;
  std::vector<Exported> parameters_;
  std::vector<SafeTensor> tensors_;  // parameters_, as stored in the file
  std::string header_;
  std::string config_;
  int64_t bytes_ = 0;
  std::optional<NewFile> file_;  // on rank 0
  std::optional<OpenFile> bytes_of_file_;
};

}  // namespace

int export_model(const ExportOptions& options, int* argc, char*** argv) {
  return run_job(argc, argv, [&](MpiSession& mpi) { return ExportRun(options, mpi.world()).go(); });
}

}  // namespace hidup

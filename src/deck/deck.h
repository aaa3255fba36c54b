// The decks: what a run computes, on which data, how it trains, on which machine.
//
// Two YAML files hold them: the model deck (sections model, data, train) and the
// cluster deck (section cluster). keys.cpp has one record per key, and says what
// every member here means, its default and its limits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/check.h"

namespace hidup {

// Mixture of experts: in some blocks, experts take the place of the feed-forward
// network. A router chooses among them for every token.
struct MoeDeck {
  int64_t experts = 0;  // of a block; 0: the model is dense, and nothing else here holds
  int64_t every = 0;    // blocks i (from 0) with (i + 1) % every == 0 have experts
  std::string router;
  std::optional<int64_t> top_k;  // none: auto, what the router says
  std::string normalize;         // on, off
  // Slots of an expert per sequence: ceil(capacity_factor * choices() * sequence / experts), at
  // least 1 and at most sequence.
  double capacity_factor = 0.0;
  double balance_loss = 0.0;  // weight; 0: none
  std::string balance;        // switch, gshard
  double z_loss = 0.0;        // weight; 0: none
  std::string bias;           // on, off

  int64_t choices() const { return top_k.value_or(router == "top2" ? 2 : 1); }  // per token
};

// Sizes count elements. Whoever reads a member may rely on its key's limits and on
// the relations between keys that parse_decks() checks. With a graph, only sequence,
// vocab and precision hold besides.
struct ModelDeck {
  std::string family;
  std::string graph;  // file of a graph in text form, absolute; empty: the family is built
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t ffn = 0;
  int64_t heads = 0;
  std::optional<int64_t> kv_heads;  // heads of keys and values; none: auto, as many as heads
  double rope_theta = 1e4;
  double norm_epsilon = 1e-5;
  std::string tied_head;         // on, off
  int64_t sequence = 0;          // of images kImagePositions (core/images.h)
  std::optional<int64_t> vocab;  // none: auto, from the data
  double dropout = 0.0;
  std::string precision;
  MoeDeck moe;
};

// What the validation loss is measured on; at most one of the two is there.
struct ValidationData {
  double fraction = 0.0;          // of the windows of the data, the last ones; 0: none
  std::vector<std::string> path;  // files and globs, absolute

  bool empty() const { return fraction == 0.0 && path.empty(); }
};

struct DataDeck {
  std::string kind;
  std::vector<std::string> path;  // files and globs, absolute
  std::string tokenizer;
  ValidationData validation;
};

// When checkpoints are written, and where.
struct CheckpointDeck {
  int64_t every_steps = 0;        // 0: off
  std::optional<double> every_s;  // none: not by time; key train.checkpoint.every
  int64_t keep = 0;               // 0: all
  std::string folder;             // absolute; empty: beside the timing file
  std::string blocking;           // on, off
  std::string on_error;           // warn, stop
};

using Patterns = std::vector<std::string>;  // of names, with * and ? (core/text.h)

struct TrainDeck {
  int64_t batch = 0;  // sequences per step, all ranks together
  int64_t steps = 0;
  std::optional<int64_t> microbatches;  // none: auto, the strategy's; of a group
  std::optional<int64_t> accumulate;    // groups; none: auto, the strategy's
  std::string recompute;                // none, cheap, block
  uint64_t seed = 0;
  double lr = 0.0;
  std::string schedule;
  int64_t warmup_steps = 0;
  double min_lr_ratio = 0.0;
  std::string optimizer;
  double beta1 = 0.0;
  double beta2 = 0.0;
  double epsilon = 0.0;
  double weight_decay = 0.0;
  std::optional<Patterns> no_decay;  // parameters without it; none: auto, what the graph says
  double clip_norm = 0.0;            // 0: off
  int64_t bucket_bytes = 0;          // key train.bucket
  int64_t timeline_every = 0;        // 0: steps 1 to 3 only
  std::string overlap;               // on, off
  int64_t validate_every = 0;        // steps; 0: never
  std::string on_nan;                // stop, skip
  CheckpointDeck checkpoint;
};

// A while in which a link has this bandwidth.
struct LinkPhase {
  double for_s = 0.0;
  double bandwidth = 0.0;  // bytes/s
};

struct MeshAxis {
  std::string name;
  std::optional<int64_t> size;             // none: auto, what the number of ranks leaves
  std::optional<double> bandwidth;         // bytes/s
  std::optional<double> latency;           // s
  int64_t shared = 1;                      // ranks of the other axes that divide the bandwidth
  int64_t per_host = 1;                    // consecutive ranks of the axis on one host, and
  std::optional<double> host_bandwidth;    // bytes/s of its link; none where per_host is 1
  std::vector<LinkPhase> bandwidth_trace;  // repeated from the run's start; empty: bandwidth holds
};

// Ranks that compute at the same rates.
struct DeviceClass {
  int64_t count = 1;                       // ranks
  double flops = 0.0;                      // flop/s
  std::optional<double> memory_bandwidth;  // bytes/s; none: flops / 16
};

struct ClusterDeck {
  std::string device_kind;
  std::optional<int64_t> device_threads;
  std::optional<int64_t> device_memory;    // bytes; none: what the machine has
  std::optional<double> device_flops;      // flop/s
  std::optional<double> memory_bandwidth;  // bytes/s; none: flops / 16
  std::string device_graph;                // auto, off
  int64_t timed_every = 0;                 // steps; key cluster.device.timed_every
  std::string algorithms;                  // heuristic, timed; key cluster.device.algorithms
  std::string bf16;                        // auto, native, f32; key cluster.device.bf16
  int64_t reserved_multiprocessors = 0;    // key cluster.device.reserved_multiprocessors
  std::vector<MeshAxis> mesh;              // outermost axis first
  std::string comm_backend;                // auto, mpi, nccl
  std::string register_buffers;            // on, off; key cluster.comm.register_buffers
  int64_t max_ctas = 0;                    // of NCCL; 0: its own choice; key cluster.comm.max_ctas
  double collective_timeout_s = 0.0;       // key cluster.comm.collective_timeout
  double heartbeat_timeout_s = 0.0;        // key cluster.comm.heartbeat_timeout
  std::string profile;                     // auto, or a file: absolute; empty: none
  double profile_noise = 0.0;              // relative
  std::string cost_model;                  // measured, published
  std::string emulate;                     // on, off
  double emulate_dilation = 1.0;           // wall time over emulated time
  std::vector<DeviceClass> devices;        // in the order of ranks; empty: all are as the device
};

enum class DeckFile { model, cluster };

// Where values stand: "FILE:LINE:COLUMN", or "--set key=value" of an override.
struct DeckPlaces {
  std::map<std::string, std::string> given;  // keys, and the groups and items that hold them
  std::map<DeckFile, std::string> decks;     // the start of a deck, or its first override
};

struct Deck {
  ModelDeck model;
  DataDeck data;
  TrainDeck train;
  ClusterDeck cluster;
  DeckPlaces places;  // empty in a deck that was not parsed
};

// The place of the key's value, else of the closest group that is given, else of its deck; empty
// where there is none of them. For what turns out to be wrong only after parsing.
std::string place_of(const Deck& deck, std::string_view key);

// Throws an Error "PLACE: message" with the place of that key's value.
[[noreturn]] void fail_at(const Deck& deck, std::string_view key, const std::string& message,
                          ExitCode code = ExitCode::usage);

// The text of a deck and where it comes from.
struct DeckSource {
  std::string name;    // as messages show it: the path as typed
  std::string text;    // YAML
  std::string folder;  // relative paths in the deck start here
};

// Throws Error(file) where the path cannot be read.
DeckSource read_deck_file(const std::string& path);

// Reads the decks, then the overrides "section.key=value" (the value is YAML, the
// last override of a key holds, its relative paths start in the working directory).
// Either deck may be null: its sections then keep their defaults, and what they
// lack is not an error. A value such as "2 x ranks" becomes the number for `ranks`, or without
// them for the sizes of the mesh where the cluster deck gives all of them; else it is an error.
// Throws one Error(usage) with a line "FILE:LINE:COLUMN: message" per problem.
Deck parse_decks(const DeckSource* model, const DeckSource* cluster,
                 std::span<const std::string> overrides,
                 std::optional<int64_t> ranks = std::nullopt);

// The axis of that name; Error(internal) if there is none.
const MeshAxis& axis_of(const ClusterDeck& cluster, std::string_view name);

// The sizes of the mesh's axes for this many ranks, in the deck's order.
// Throws Error(usage) with the place where no size of the auto axis makes them fit, where
// cluster.devices are not as many, and where an axis is shared by what the other axes do not have.
std::vector<int64_t> check_ranks(const Deck& deck, int64_t ranks);

// All keys of one deck file that have a place in this deck, with their values: a deck
// that parses to the same values.
std::string resolved_yaml(const Deck& deck, DeckFile file);
// Of both, one behind the other: what runs record.
std::string resolved_yaml(const Deck& deck);

// The deck of such a text. An older build's lacks keys that came later: they have their defaults.
// Throws Error(file) where parse_decks() throws; `name` is what its messages call the text.
Deck parse_resolved(const std::string& name, const std::string& text);

// Keys that have other values in two texts of resolved_yaml(), "none" where one lacks them; by
// name.
struct ChangedKey {
  std::string key, before, now;
};
std::vector<ChangedKey> changed_keys(const std::string& before, const std::string& now);

// The page that explains how to write decks and lists every key (Markdown).
std::string reference_markdown();

}  // namespace hidup

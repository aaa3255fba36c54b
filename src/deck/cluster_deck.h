// The section cluster of the decks: the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hidup {

// A period in which a link has this bandwidth, or a device this pace.
struct TracePhase {
  double for_s = 0.0;
  double rate = 0.0;  // bytes/s; for a device: over its rates
};

struct MeshAxis {
  std::string name;
  std::optional<int64_t> size;              // none: auto, from the number of ranks
  std::optional<double> bandwidth;          // bytes/s
  std::optional<double> latency;            // s
  int64_t shared = 1;                       // ranks of the other axes that divide the bandwidth
  int64_t per_host = 1;                     // consecutive ranks of the axis on one host
  std::optional<double> host_bandwidth;     // bytes/s of a host's link; none if per_host is 1
  std::vector<TracePhase> bandwidth_trace;  // repeated from the run's start; empty: bandwidth holds
};

// The share of the device's rated flops that products of this precision and size reach.
struct ProductEfficiency {
  std::string precision;        // any, fp32, bf16, fp16
  std::optional<int64_t> size;  // n: products with the flops of n x n x n ones; none: all
  double share = 1.0;
};

// Ranks with equal devices. A key that is none has the value of cluster.device.
struct DeviceClass {
  std::string ranks = "auto";    // "0-7, 12"; auto: by host or count
  std::string host = "auto";     // name of the ranks' host, or a pattern; auto: any
  std::optional<int64_t> count;  // ranks; none: 1, or all of `ranks` or `host`
  std::string kind = "auto";     // auto, cpu, cuda
  std::optional<int64_t> threads;
  std::optional<int64_t> memory;           // bytes
  std::optional<double> flops;             // flop/s
  std::optional<double> flops_16bit;       // flop/s of bf16 and fp16; none: flops, if given
  std::optional<double> memory_bandwidth;  // bytes/s; none: flops / 16, if given
  std::vector<TracePhase> pace_trace;      // repeated from the run's start; empty: the rates hold
};

struct ClusterDeck {
  std::string device_kind;
  std::optional<int64_t> device_threads;
  std::optional<int64_t> device_memory;  // bytes; none: the machine's memory
  std::optional<double> device_flops;    // flop/s
  std::optional<double> flops_16bit;     // flop/s of bf16 and fp16; none: device_flops
  std::vector<ProductEfficiency> efficiency;
  std::optional<double> memory_bandwidth;  // bytes/s; none: flops / 16
  std::string device_graph;                // auto, off
  int64_t timed_every = 0;                 // steps; key cluster.device.timed_every
  std::string algorithms;                  // heuristic, timed; key cluster.device.algorithms
  std::string bf16;                        // auto, native, f32; key cluster.device.bf16
  int64_t reserved_multiprocessors = 0;    // key cluster.device.reserved_multiprocessors
  std::vector<MeshAxis> mesh;              // outermost axis first
  std::string order;                       // auto, as-given
  std::string comm_backend;                // auto, mpi, nccl
  std::string register_buffers;            // on, off; key cluster.comm.register_buffers
  int64_t max_ctas = 0;                    // CTAs of NCCL; 0: its choice; key cluster.comm.max_ctas
  double collective_timeout_s = 0.0;       // key cluster.comm.collective_timeout
  double heartbeat_timeout_s = 0.0;        // key cluster.comm.heartbeat_timeout
  std::string profile;                     // auto, or a file: absolute; empty: none
  double profile_noise = 0.0;              // relative
  std::string cost_model;                  // measured, published
  std::string emulate;                     // on, off
  double emulate_dilation = 1.0;           // wall time over emulated time
  std::vector<DeviceClass> devices;        // empty: all ranks have cluster.device

  // Returns true if times are those of this cluster, while CPU ranks of another machine compute.
  bool emulates() const { return emulate == "on"; }
};

// Returns the axis of that name. Throws Error(internal) if there is none.
const MeshAxis& axis_of(const ClusterDeck& cluster, std::string_view name);

}  // namespace hidup

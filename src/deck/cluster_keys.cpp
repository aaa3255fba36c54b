#include "deck/cluster_keys.h"

#include "deck/cluster_deck.h"

namespace hidup {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kPiB = 1024.0 * 1024.0 * 1024.0 * kMiB;

// Rates from a microcontroller's to a computing centre's. With others, times are not comparable.
constexpr Range kFlopRates = {1e6, 1e18};         // flop/s
constexpr Range kMemoryBandwidths = {1e5, 1e15};  // bytes/s
constexpr Range kLinkBandwidths = {1e3, 1e15};    // bytes/s

}  // namespace

std::vector<Key> cluster_keys() {
  return {
      {.name = "cluster.device.kind",
       .doc = "The device of a rank. A program that was not built for it ends with exit code 8. "
              "auto: the device that each rank's program was built for, in a job in which some "
              "ranks have GPUs and others do not; predictions without a profile then count on "
              "NCCL only if `cluster.comm.backend` is nccl.",
       .fallback = "cpu",
       .choices = {"auto", "cpu", "cuda"},
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->device_kind; }},
      {.name = "cluster.device.threads",
       .doc = "OpenMP threads of a rank. auto: `OMP_NUM_THREADS`, or else the rank's share of the "
              "cores that it may use.",
       .fallback = "auto",
       .range = {1, 4096},
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->device_threads; }},
      {.name = "cluster.device.memory",
       .doc = "Memory that a rank may use. auto: what the machine has; of a GPU, what is free when "
              "the run has its communicators, in equal parts for the ranks that use it, less 1/32 "
              "of that (1 GiB at most) for what libraries take later.",
       .fallback = "auto",
       .range = {kMiB, kPiB},
       .unit = Unit::bytes,
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->device_memory; }},
      {.name = "cluster.device.flops",
       .doc = "Floating-point rate that a rank is rated at, as its data sheet has it. Predictions "
              "without a profile rest on it and on `efficiency`; auto: not known.",
       .fallback = "auto",
       .range = kFlopRates,
       .unit = Unit::flops,
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->device_flops; }},
      {.name = "cluster.device.flops_16bit",
       .doc = "Rated floating-point rate of products in bf16 and fp16, without sparsity. auto: "
              "as `cluster.device.flops`.",
       .fallback = "auto",
       .range = kFlopRates,
       .unit = Unit::flops,
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->flops_16bit; }},
      {.name = "cluster.device.efficiency",
       .doc = "The share of the rated flops that matrix products reach, for predictions without "
              "a profile: no product reaches all, and small ones reach little. `[{share: "
              "0.8}]`, or by precision and size: `[{precision: fp32, share: 0.9}, {precision: "
              "bf16, size: 1024, share: 0.2}, {precision: bf16, size: 8192, share: 0.8}]`. "
              "Between two sizes the share is interpolated on logarithmic scales; outside of "
              "them it is that of the nearest size. Where only one of bf16 and fp16 is given, "
              "it stands for both. []: products reach the rated flops. `cluster.cost.model: "
              "published` does not use it.",
       .fallback = "[]",
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->efficiency; }},
      {.name = "cluster.device.efficiency[].precision",
       .doc = "Number format of the products' elements. any: every format that no other item "
              "names.",
       .fallback = "any",
       .choices = {"any", "fp32", "bf16", "fp16"},
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->efficiency[i.outer].precision; }},
      {.name = "cluster.device.efficiency[].size",
       .doc = "n: products with as many flops as one of n x n by n x n matrices. auto: products "
              "of all sizes.",
       .fallback = "auto",
       .range = {1, 1000000},
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->efficiency[i.outer].size; }},
      {.name = "cluster.device.efficiency[].share",
       .doc = "The share of the rated flops that these products reach.",
       .range = {.min = 0, .max = 1, .above_min = true},
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->efficiency[i.outer].share; }},
      {.name = "cluster.device.memory_bandwidth",
       .doc = "Bandwidth of a rank's memory, for predictions without a profile. auto: a byte for "
              "every 16 flops of `cluster.device.flops`.",
       .fallback = "auto",
       .range = kMemoryBandwidths,
       .unit = Unit::bandwidth,
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->memory_bandwidth; }},
      {.name = "cluster.device.graph",
       .doc = "auto: a step is recorded once as a CUDA graph and then launched as a whole, "
              "where the device and the collectives' library can do so. off: instructions are "
              "launched one by one; the results are the same.",
       .fallback = "auto",
       .choices = {"auto", "off"},
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->device_graph; }},
      {.name = "cluster.device.timed_every",
       .doc = "Where steps are recorded (cluster.device.graph), the first three steps and every "
              "n-th step are timed instruction by instruction, which costs the device extra "
              "work. /ranks has NaN for the other steps, and an error cannot say at which "
              "instruction one of them hangs.",
       .fallback = "10",
       .range = {1, 1000000},
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->timed_every; }},
      {.name = "cluster.device.algorithms",
       .doc = "How a GPU's matrix products are computed. heuristic: by the algorithm that "
              "cuBLASLt proposes first. timed: by the fastest of up to 8, which are timed when "
              "the profile is measured, and stored in it; products that the profile lacks, and "
              "runs without a profile (`cluster.profile`), use the heuristic. Another algorithm "
              "may add in another order: runs with one profile are equal to the bit, but a new "
              "profile may hold other choices.",
       .fallback = "heuristic",
       .choices = {"heuristic", "timed"},
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->algorithms; }},
      {.name = "cluster.device.bf16",
       .doc = "How a CPU multiplies bf16. native: by its instructions for bf16 (AVX-512 BF16, "
              "AMX). f32: as f32, which is faster on some CPUs that have such instructions. "
              "auto: native where all ranks have AMX, or are AMD CPUs with AVX-512 BF16; f32 "
              "elsewhere. Sums are f32 in any case, but added in another order; `doctor` and "
              "the timing file say which is used. fp16 is multiplied as f32.",
       .fallback = "auto",
       .choices = {"auto", "native", "f32"},
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->bf16; }},
      {.name = "cluster.device.reserved_multiprocessors",
       .doc = "Multiprocessors of a GPU that matrix products leave to messages which may run "
              "beside them: cuBLASLt chooses its algorithm for so many fewer. The value of "
              "`cluster.comm.max_ctas` is a first guess. Another number may change the order of "
              "sums, and so the rounding of results.",
       .fallback = "0",
       .range = {0, 1024},
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->reserved_multiprocessors; }},
      {.name = "cluster.mesh",
       .doc =
           "The axes along which the ranks are arranged, at most 8; the product of their sizes is "
           "the number of ranks. Neighbours along the last axis have consecutive numbers. Where "
           "all "
           "axes have a `bandwidth`, their order makes no other difference.",
       .fallback = "[{name: ranks, size: auto}]",
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->mesh; }},
      {.name = "cluster.mesh[].name",
       .doc = "Name of the axis: letters, digits, _ and -, first a letter, at most 40.",
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->mesh[i.outer].name; }},
      {.name = "cluster.mesh[].size",
       .doc = "Ranks along the axis. auto, on one axis only: what the other axes leave.",
       .range = {1, 1000000},
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->mesh[i.outer].size; }},
      {.name = "cluster.mesh[].bandwidth",
       .doc = "What one rank can send along the axis, and receive at the same time: the "
              "bandwidth of a rank's link, such as that of one GPU, not that of its host. Where "
              "the GPUs of a host share a network card, this is the card's bandwidth and "
              "`shared` is their number: four hosts of 8 GPUs with a card of 100 Gbps each are "
              "`{name: node, size: 4, bandwidth: 100Gbps, shared: 8}` and `{name: gpu, size: 8, "
              "bandwidth: 130GB/s}`. Without `shared` every GPU would have such a card of its "
              "own. For one axis over several hosts see `per_host`. Predictions without a "
              "profile rest on it; auto: not known.",
       .fallback = "auto",
       .range = kLinkBandwidths,
       .unit = Unit::bandwidth,
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->mesh[i.outer].bandwidth; }},
      {.name = "cluster.mesh[].latency",
       .doc = "Time of an empty message along the axis, for predictions without a profile. auto: "
              "none.",
       .fallback = "auto",
       .range = {0, kHour},
       .unit = Unit::seconds,
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->mesh[i.outer].latency; }},
      {.name = "cluster.mesh[].shared",
       .doc = "Number of ranks of the other axes that share one link along this axis and divide "
              "its `bandwidth`, such as the GPUs of a host that have one network card. A rank's "
              "link is that part of it: 12.5 Gbps of 100 Gbps with `shared: 8`. Predictions "
              "assume that all of them send all the time. A divisor of the number of ranks on "
              "the other axes. `hidup profile` measures the link.",
       .fallback = "1",
       .range = {1, 1000000},
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->mesh[i.outer].shared; }},
      {.name = "cluster.mesh[].per_host",
       .doc = "Number of consecutive ranks of this axis on one host, where one axis holds the "
              "ranks of several hosts: `{name: gpus, size: 32, per_host: 8, bandwidth: 130GB/s, "
              "host_bandwidth: 100Gbps}`. `bandwidth` is then the bandwidth of a rank inside "
              "its host. Predictions without a profile: rings and trees cross a host's link "
              "once in each direction, so the slower of the two links counts. All-to-alls send "
              "over it what each of its ranks has for other hosts; moves count as if all ranks "
              "of the host sent over it at once. It is better to write two axes, one for the "
              "hosts and one for the ranks of each: then a strategy may treat them differently, "
              "and keep large messages inside a host. The same strategy then costs as much, or "
              "less: every link has its own latency, and collectives may run inside hosts "
              "first, which sends less between them. A divisor of the axis's size.",
       .fallback = "1",
       .range = {1, 1000000},
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->mesh[i.outer].per_host; }},
      {.name = "cluster.mesh[].host_bandwidth",
       .doc = "What a host of `per_host` ranks can send to other hosts, and receive at the same "
              "time, all of its ranks together.",
       .fallback = "auto",
       .range = kLinkBandwidths,
       .unit = Unit::bandwidth,
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->mesh[i.outer].host_bandwidth; }},
      {.name = "cluster.mesh[].bandwidth_trace",
       .doc = "The bandwidth of a link that varies in time, with `cluster.emulate` only: the "
              "link has each bandwidth for its time, and the list repeats from the run's start. "
              "Where a message passes at another bandwidth than `bandwidth`, its bytes take "
              "proportionally longer; its latency stays. Strategies are chosen for `bandwidth`.",
       .fallback = "[]",
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->mesh[i.outer].bandwidth_trace; }},
      {.name = "cluster.mesh[].bandwidth_trace[].for",
       .doc = "How long the link has this bandwidth.",
       .range = {1e-6, kHour},
       .unit = Unit::seconds,
       .slot = [](Deck& d, Item i) -> Slot {
         return &d.cluster->mesh[i.outer].bandwidth_trace[i.inner].for_s;
       }},
      {.name = "cluster.mesh[].bandwidth_trace[].bandwidth",
       .doc = "What one rank can send during this time, before `shared` divides it.",
       .range = kLinkBandwidths,
       .unit = Unit::bandwidth,
       .slot = [](Deck& d, Item i) -> Slot {
         return &d.cluster->mesh[i.outer].bandwidth_trace[i.inner].rate;
       }},
      {.name = "cluster.order",
       .doc = "Which ranks become neighbours on the mesh. auto: where mpirun numbered the ranks so "
              "that those of a host are not neighbours along the fastest axis (the last one, where "
              "axes lack a `bandwidth`), the run numbers them anew, and says so; hosts with "
              "devices of one class, and hosts of one switch (Slurm's `SLURM_TOPOLOGY_ADDR`), come "
              "next to each other. All messages, files and keys then mean the new numbers; rank 0 "
              "stays. Where an item of `cluster.devices` has no `host`, it counts ranks as mpirun "
              "numbers them, and the order stays, as with `cluster.emulate`. as-given: mpirun's.",
       .fallback = "auto",
       .choices = {"auto", "as-given"},
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->order; }},
      {.name = "cluster.devices",
       .doc =
           "Classes of ranks with unequal devices. Each item says which ranks it means: `ranks`, "
           "or all ranks on a `host`, or the next `count` ranks that no other item names; every "
           "rank is in one class. A key that an item lacks has the value of `cluster.device`. "
           "Predictions without a profile and `cluster.emulate` use these rates; a measured "
           "profile has the times of the slowest rank for all. The search gives the ranks of an "
           "axis unequal parts where devices differ along it and that is faster or saves memory. "
           "[]: all ranks are as `cluster.device`.",
       .fallback = "[]",
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->devices; }},
      {.name = "cluster.devices[].ranks",
       .doc = "Ranks of this class: `0-7`, or several of these: `'0-7, 12'`. auto: by `host` or "
              "`count`.",
       .fallback = "auto",
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->devices[i.outer].ranks; }},
      {.name = "cluster.devices[].host",
       .doc = "The host of the ranks of this class, or a pattern of hosts: `gpu-*`. Commands that "
              "run without ranks know no hosts, and take the next `count` ranks. auto: any.",
       .fallback = "auto",
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->devices[i.outer].host; }},
      {.name = "cluster.devices[].count",
       .doc = "Ranks of this class. auto: as many as `ranks` or `host` has; 1 without these.",
       .fallback = "auto",
       .range = {1, 1000000},
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->devices[i.outer].count; }},
      {.name = "cluster.devices[].kind",
       .doc = "As `cluster.device.kind`, which is auto.",
       .fallback = "auto",
       .choices = {"auto", "cpu", "cuda"},
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->devices[i.outer].kind; }},
      {.name = "cluster.devices[].threads",
       .doc = "As `cluster.device.threads`, which is auto.",
       .fallback = "auto",
       .range = {1, 4096},
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->devices[i.outer].threads; }},
      {.name = "cluster.devices[].memory",
       .doc = "As `cluster.device.memory`, which is auto.",
       .fallback = "auto",
       .range = {kMiB, kPiB},
       .unit = Unit::bytes,
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->devices[i.outer].memory; }},
      {.name = "cluster.devices[].flops",
       .doc = "As `cluster.device.flops`, which is auto.",
       .fallback = "auto",
       .range = kFlopRates,
       .unit = Unit::flops,
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->devices[i.outer].flops; }},
      {.name = "cluster.devices[].flops_16bit",
       .doc = "As `cluster.device.flops_16bit`. auto: the item's `flops`; that of `cluster.device` "
              "where the item has none.",
       .fallback = "auto",
       .range = kFlopRates,
       .unit = Unit::flops,
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->devices[i.outer].flops_16bit; }},
      {.name = "cluster.devices[].memory_bandwidth",
       .doc = "As `cluster.device.memory_bandwidth`. auto: a byte for every 16 of the item's "
              "`flops`; that of `cluster.device` where the item has none.",
       .fallback = "auto",
       .range = kMemoryBandwidths,
       .unit = Unit::bandwidth,
       .slot = [](Deck& d, Item i) -> Slot {
         return &d.cluster->devices[i.outer].memory_bandwidth;
       }},
      {.name = "cluster.devices[].pace_trace",
       .doc =
           "Devices whose pace varies in time, with `cluster.emulate` only: they have each pace "
           "for its time, and the list repeats from the run's start. They stay in the class of "
           "the devices with the same rates, so the run reports them as slow (docs/clusters.md). "
           "Strategies are chosen for the rates.",
       .fallback = "[]",
       .slot = [](Deck& d, Item i) -> Slot { return &d.cluster->devices[i.outer].pace_trace; }},
      {.name = "cluster.devices[].pace_trace[].for",
       .doc = "How long the devices have this pace.",
       .range = {1e-6, kHour},
       .unit = Unit::seconds,
       .slot = [](Deck& d, Item i) -> Slot {
         return &d.cluster->devices[i.outer].pace_trace[i.inner].for_s;
       }},
      {.name = "cluster.devices[].pace_trace[].pace",
       .doc = "Part of the device's rates: with 0.5 every operation takes twice as long.",
       .range = {0.001, 1000.0},
       .slot = [](Deck& d, Item i) -> Slot {
         return &d.cluster->devices[i.outer].pace_trace[i.inner].rate;
       }},
      {.name = "cluster.comm.backend",
       .doc = "The library of the collectives. mpi: MPI, through the host's memory. nccl: NCCL, "
              "between GPUs, of which every rank needs one of its own; where a rank's program was "
              "built without it, all end with exit code 8. auto: nccl where possible, else mpi.",
       .fallback = "auto",
       .choices = {"auto", "mpi", "nccl"},
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->comm_backend; }},
      {.name = "cluster.comm.register_buffers",
       .doc = "on: a rank's memory is registered with NCCL, which may then send from it without a "
              "copy of its own.",
       .fallback = "off",
       .choices = {"on", "off"},
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->register_buffers; }},
      {.name = "cluster.comm.max_ctas",
       .doc = "Most thread blocks (CTAs) of a GPU that a collective of NCCL may take from "
              "computation. 0: NCCL decides.",
       .fallback = "0",
       .range = {0, 64},
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->max_ctas; }},
      {.name = "cluster.comm.heartbeat_timeout",
       .doc = "A rank that gives no sign of life for this long counts as lost, and the run ends "
              "with exit code 5.",
       .fallback = "5s",
       .range = {1, kHour},
       .unit = Unit::seconds,
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->heartbeat_timeout_s; }},
      {.name = "cluster.comm.collective_timeout",
       .doc = "A collective that ranks wait in for this long counts as one that never ends: the "
              "run ends with exit code 5, and the error names the rank that did not come. "
              "Collectives of MPI count only while no rank has advanced for as long; those of "
              "NCCL always.",
       .fallback = "10min",
       .range = {1, kHour},
       .unit = Unit::seconds,
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->collective_timeout_s; }},
      {.name = "cluster.profile",
       .doc = "A file of measured times of the cluster, on which predictions rest, written by "
              "`hidup profile`; `train` refuses one that was measured with another build, "
              "device, library or number of ranks. auto: `train` stores one for each model. It "
              "measures a new one where there is none, or where messages take more than 20 % "
              "more or less than in it; it only reports such a change of a file that the deck "
              "names. none: predictions rest on `cluster.device.flops` and the axes' bandwidth. "
              "Relative paths start as those of `data.path`.",
       .fallback = "auto",
       .choices = {"auto", "none"},
       .path_of = "file",
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->profile; }},
      {.name = "cluster.profile_noise",
       .doc = "Multiplies every time of the profile by a factor between 1 - this and 1 + this, "
              "drawn from `train.seed`. It shows how much a search depends on exact times.",
       .fallback = "0",
       .range = {.min = 0, .max = 1, .below_max = true},
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->profile_noise; }},
      {.name = "cluster.cost.model",
       .doc =
           "measured: times of the profile, or rates. published: the cost model of HiDup's paper, "
           "from `cluster.device.flops` and the axes' bandwidth.",
       .fallback = "measured",
       .choices = {"measured", "published"},
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->cost_model; }},
      {.name = "cluster.emulate",
       .doc = "on: CPU ranks compute for real, whatever the device's kind, and time is that of "
              "the cluster in this deck: every instruction takes the time that the cost model "
              "gives for it, by the deck's rates or the file of `cluster.profile`. Nothing is "
              "measured.",
       .fallback = "off",
       .choices = {"on", "off"},
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->emulate; }},
      {.name = "cluster.emulate_dilation",
       .doc = "Wall time over emulated time. Real computation must end within its emulated "
              "time, multiplied by this; the run reports instructions that ended late.",
       .fallback = "1",
       .range = {1e-6, 1e6},
       .slot = [](Deck& d, Item) -> Slot { return &d.cluster->emulate_dilation; }},
  };
}

}  // namespace hidup

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <chrono>
#include <map>
#include "setting.h"
namespace hidup {
void show(const std::string& what, const Setting& s) {
  const Graph g = s.graph();
  auto t = std::chrono::steady_clock::now();
  const SearchOutcome o = s.search();
  double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
  fmt::print("== {}: {} mb {} {:.3g} s gap {:.3f} took {:.3f}\n", what, o.strategy.name, o.strategy.microbatches, o.seconds, o.gap, took);
  std::map<std::string,int> n;
  for (size_t i = 0; i < o.strategy.ops.size(); ++i) {
    std::string r; for (auto& x : o.strategy.ops[i].rules) r += "/" + x.name;
    OpKind k = g.ops()[i].kind;
    n[(k == OpKind::matmul ? "P:" : k == OpKind::expert_matmul ? "E:" : k == OpKind::attention ? "A:" : "o:") + r]++;
  }
  for (auto& [k, c] : n) fmt::print("{} {}, ", k, c);
  fmt::print("\n");
  double stored = 0, all = 0;
  for (auto& p : o.strategy.parameters) { all += elements(g.tensor(p.tensor).shape); stored += elements(shape_of(region_of(g.tensor(p.tensor).shape, p.storage, s.mesh, 0))); }
  fmt::print("  stored {:.3f}\n", stored / all);
  for (size_t c = 0; c < std::min<size_t>(4, o.candidates.size()); ++c)
    fmt::print("   {} {} {:.4g} {} {}\n", o.candidates[c].strategy.name, o.candidates[c].strategy.microbatches, o.candidates[c].seconds, o.candidates[c].memory_bytes, o.candidates[c].reason);
}
TEST(Scratch, A) {
  for (int64_t b : {1, 64}) for (int64_t h : {256, 512}) { auto s = small_setting(); s.deck.train.batch = b; s.deck.model.hidden = h; s.deck.model.ffn = 4 * h; s.machine.links[0].latency_s=1e-6; show(fmt::format("hidden {} batch {}", h, b), s); }
  for (int64_t limit : {int64_t{0}, int64_t{3000000}, int64_t{2400000}}) { auto s = small_setting(); s.deck.train.batch = 8; s.options.memory_limit = limit; show(fmt::format("batch 8 limit {}", limit), s); }
  for (int64_t limit : {int64_t{0}, int64_t{3000000}, int64_t{2400000}}) { auto s = small_setting(); s.deck.train.batch = 8; s.machine.memory_bandwidth=1e13; s.options.memory_limit = limit; show(fmt::format("batch 8 mbw limit {}", limit), s); }
}
TEST(Scratch, B) {
  for (int64_t experts : {0, 4}) for (int64_t layers : {8}) for (int64_t inner : {2, 4}) { auto s = small_setting(experts); s.deck.model.layers = layers; s.mesh = {{"node", 2}, {"gpu", inner}};
    s.machine.links = {{1e9, 2e-5}, {2e10, 5e-6}}; show(fmt::format("2x{} experts {} layers {}", inner, experts, layers), s); }
}
}

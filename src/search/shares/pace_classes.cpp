#include "search/shares/pace_classes.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace hidup {

std::vector<PaceClass> pace_classes(const Mesh& mesh, size_t axis,
                                    const std::vector<int64_t>& memory) {
  const Axis& along = mesh[axis];
  const auto size = static_cast<size_t>(along.size);
  std::vector<int64_t> least(size);
  for (size_t rank = 0; rank < memory.size(); ++rank) {
    int64_t& of = least[static_cast<size_t>(coordinate_of(mesh, static_cast<int64_t>(rank), axis))];
    of = of == 0 ? memory[rank] : std::min(of, memory[rank]);
  }
  std::map<std::pair<double, int64_t>, std::vector<int64_t>, std::greater<>> alike;
  for (size_t coordinate = 0; coordinate < size; ++coordinate) {
    const double pace = along.paces.empty() ? 1.0 : along.paces[coordinate];
    alike[{pace, least[coordinate]}].push_back(static_cast<int64_t>(coordinate));
  }
  std::vector<PaceClass> classes;
  classes.reserve(alike.size());
  for (auto& [kind, coordinates] : alike) {
    classes.push_back({kind.first, kind.second, std::move(coordinates)});
  }
  return classes.size() > 1 ? classes : std::vector<PaceClass>();
}

Share weights_of(const std::vector<PaceClass>& classes, const std::vector<int64_t>& by_class) {
  size_t ranks = 0;
  for (const PaceClass& each : classes) {
    ranks += each.coordinates.size();
  }
  Share weights(ranks);
  for (size_t c = 0; c < classes.size(); ++c) {
    for (const int64_t coordinate : classes[c].coordinates) {
      weights[static_cast<size_t>(coordinate)] = by_class[c];
    }
  }
  return weights;
}

}  // namespace hidup

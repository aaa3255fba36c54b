// Graphs: every launch runs the nodes on as many threads as streams were captured.
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "capture.h"
#include "state.h"
#include "stream.h"

namespace cuda_shim {
namespace {

// The finished nodes of one launch of a graph.
class Launch {
 public:
  explicit Launch(size_t nodes) : done_(nodes, false), left_(nodes) {}

  void begin() {
    const std::lock_guard lock(mutex_);
    begun_ = true;
    changed_.notify_all();
  }
  void wait_begun() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return begun_; });
  }
  void finish(size_t node) {
    const std::lock_guard lock(mutex_);
    done_[node] = true;
    --left_;
    changed_.notify_all();
  }
  void wait_for(const std::vector<size_t>& nodes) {
    std::unique_lock lock(mutex_);
    for (const size_t node : nodes) {
      changed_.wait(lock, [this, node] { return done_[node]; });
    }
  }
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return left_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool begun_ = false;
  std::vector<bool> done_;
  size_t left_;
};

}  // namespace
}  // namespace cuda_shim

struct CudaShimGraphExec {
  std::shared_ptr<CudaShimGraph> graph;
  std::vector<std::unique_ptr<CudaShimStream>>
      lanes;                                // but the first, which is the launching stream
  std::shared_ptr<cuda_shim::Launch> last;  // launches of one graph wait for each other
};

using cuda_shim::set_error;

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  if (exec == nullptr || graph == nullptr ||
      (flags & ~uint64_t{cudaGraphInstantiateFlagUseNodePriority}) != 0) {
    return set_error(cudaErrorInvalidValue);
  }
  auto instance = std::make_unique<CudaShimGraphExec>();
  instance->graph = std::make_shared<CudaShimGraph>(*graph);
  for (size_t lane = 1; lane < graph->lanes; ++lane) {
    instance->lanes.push_back(std::make_unique<CudaShimStream>());
  }
  *exec = instance.release();
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (exec == nullptr) {
    return set_error(cudaErrorInvalidValue);
  }
  CudaShimStream& first = cuda_shim::stream_or_default(stream);
  if (const auto answer = cuda_shim::capture_work(first, [] {})) {  // no graph of graphs here
    return set_error(cudaErrorStreamCaptureUnsupported);
  }
  if (cuda_shim::fault_set()) {
    return set_error(cudaErrorLaunchFailure);
  }
  cuda_shim::trace("cudaGraphLaunch");
  const std::shared_ptr<CudaShimGraph> graph = exec->graph;
  const auto launch = std::make_shared<cuda_shim::Launch>(graph->nodes.size());
  first.give_always([launch, before = std::exchange(exec->last, launch)] {
    if (before != nullptr) {
      before->wait_for_all();
    }
    launch->begin();
  });
  for (const auto& lane : exec->lanes) {
    lane->give_always([launch] { launch->wait_begun(); });
  }
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    const CudaShimGraph::Node& node = graph->nodes[i];
    CudaShimStream& lane = node.lane == 0 ? first : *exec->lanes[node.lane - 1];
    const int64_t recording = node.event == nullptr ? 0 : node.event->expect();
    lane.give_always([graph, launch, i, recording] {
      CudaShimGraph::Node& work = graph->nodes[i];
      launch->wait_for(work.after);
      if (work.event != nullptr) {
        work.event->reach(recording);
      } else if (!cuda_shim::fault_set()) {
        work.work();
      }
      launch->finish(i);
    });
  }
  first.give_always([launch] { launch->wait_for_all(); });
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return exec == nullptr ? set_error(cudaErrorInvalidValue) : cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return graph == nullptr ? set_error(cudaErrorInvalidValue) : cudaSuccess;
}

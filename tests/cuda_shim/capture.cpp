#include "capture.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "state.h"

namespace cuda_shim {
namespace {

struct Captures {
  std::mutex mutex;
  std::vector<std::shared_ptr<Capture>> active;
};

Captures& captures() {
  static auto* all = new Captures;  // threads may end after main() has
  return *all;
}

cudaError_t invalidate(Capture& capture, cudaError_t error) {
  capture.valid = false;
  return set_error(error);
}

void end(const std::shared_ptr<Capture>& capture) {
  capture->active = false;
  for (CudaShimStream* stream : capture->streams) {
    stream->captured = {};
  }
  std::erase(captures().active, capture);
}

// Returns true if all work precedes the end of the stream that began the capture.
bool joined(const CudaShimGraph& graph, const std::vector<size_t>& last) {
  std::vector<bool> reached(graph.nodes.size(), false);
  for (const size_t node : last) {
    reached[node] = true;
  }
  for (size_t i = graph.nodes.size(); i-- > 0;) {  // predecessors have lower numbers
    for (const size_t before : graph.nodes[i].after) {
      reached[before] = reached[before] || reached[i];
    }
  }
  return std::ranges::all_of(reached, [](bool found) { return found; });
}

// Refuses the call if it would disturb a capture.
std::optional<cudaError_t> refuse_in_captures() {
  std::optional<cudaError_t> answer;
  for (const std::shared_ptr<Capture>& capture : captures().active) {
    if (capture->mode == cudaStreamCaptureModeGlobal ||
        (capture->mode == cudaStreamCaptureModeThreadLocal &&
         capture->thread == std::this_thread::get_id())) {
      answer = invalidate(*capture, cudaErrorStreamCaptureUnsupported);
    }
  }
  return answer;
}

}  // namespace

std::optional<cudaError_t> capture_work(CudaShimStream& stream, std::function<void()> work,
                                        std::shared_ptr<CudaShimEvent::State> event) {
  const std::lock_guard lock(captures().mutex);
  CudaShimCaptured& captured = stream.captured;
  if (captured.by == nullptr) {
    return std::nullopt;
  }
  if (!captured.by->valid) {
    return set_error(cudaErrorStreamCaptureInvalidated);
  }
  auto& nodes = captured.by->graph.nodes;
  nodes.push_back({std::move(work), std::move(event), captured.lane, captured.last});
  captured.last = {nodes.size() - 1};
  return cudaSuccess;
}

std::optional<cudaError_t> capture_record(CudaShimEvent& event, CudaShimStream& stream) {
  const std::lock_guard lock(captures().mutex);
  event.captured = stream.captured;
  if (stream.captured.by == nullptr) {
    return std::nullopt;
  }
  return stream.captured.by->valid ? cudaSuccess : set_error(cudaErrorStreamCaptureInvalidated);
}

std::optional<cudaError_t> capture_wait(CudaShimEvent& event, CudaShimStream& stream) {
  const std::lock_guard lock(captures().mutex);
  const std::shared_ptr<Capture>& from = event.captured.by;
  CudaShimCaptured& captured = stream.captured;
  if (from == nullptr) {
    if (captured.by == nullptr || !event.recorded()) {
      return std::nullopt;
    }
    return invalidate(*captured.by, cudaErrorStreamCaptureIsolation);
  }
  if (!from->active) {
    return captured.by == nullptr ? set_error(cudaErrorCapturedEvent)
                                  : invalidate(*captured.by, cudaErrorStreamCaptureIsolation);
  }
  if (captured.by == nullptr) {
    captured = {from, from->streams.size(), {}};
    from->streams.push_back(&stream);
    from->graph.lanes = from->streams.size();
  } else if (captured.by != from) {
    invalidate(*from, cudaErrorStreamCaptureMerge);
    return invalidate(*captured.by, cudaErrorStreamCaptureMerge);
  }
  for (const size_t node : event.captured.last) {
    if (std::ranges::find(captured.last, node) == captured.last.end()) {
      captured.last.push_back(node);
    }
  }
  return cudaSuccess;
}

std::optional<cudaError_t> refuse_unsafe() {
  const std::lock_guard lock(captures().mutex);
  return refuse_in_captures();
}

std::optional<cudaError_t> refuse_wait(CudaShimStream& stream) {
  const std::lock_guard lock(captures().mutex);
  const std::shared_ptr<Capture>& by = stream.captured.by;
  return by == nullptr ? refuse_in_captures() : invalidate(*by, cudaErrorStreamCaptureUnsupported);
}

std::optional<cudaError_t> refuse_wait(CudaShimEvent& event) {
  const std::lock_guard lock(captures().mutex);
  const std::shared_ptr<Capture>& by = event.captured.by;
  return by == nullptr ? refuse_in_captures() : invalidate(*by, cudaErrorCapturedEvent);
}

void forget(CudaShimStream& stream) {
  const std::lock_guard lock(captures().mutex);
  const std::shared_ptr<Capture> capture = stream.captured.by;
  if (capture == nullptr) {
    return;
  }
  invalidate(*capture, cudaErrorStreamCaptureInvalidated);
  if (capture->streams.front() == &stream) {
    end(capture);
  } else {
    std::erase(capture->streams, &stream);
  }
}

}  // namespace cuda_shim

using cuda_shim::captures;
using cuda_shim::set_error;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (stream == nullptr) {
    return set_error(cudaErrorStreamCaptureUnsupported);
  }
  const std::lock_guard lock(captures().mutex);
  if (stream->captured.by != nullptr) {
    return set_error(cudaErrorIllegalState);
  }
  auto capture = std::make_shared<cuda_shim::Capture>();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->streams = {stream};
  stream->captured = {capture, 0, {}};
  captures().active.push_back(capture);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(captures().mutex);
  const std::shared_ptr<cuda_shim::Capture> capture =
      stream == nullptr ? nullptr : stream->captured.by;
  *status = capture == nullptr ? cudaStreamCaptureStatusNone
            : capture->valid   ? cudaStreamCaptureStatusActive
                               : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const std::lock_guard lock(captures().mutex);
  const std::shared_ptr<cuda_shim::Capture> capture =
      stream == nullptr ? nullptr : stream->captured.by;
  if (capture == nullptr) {
    return set_error(cudaErrorIllegalState);
  }
  if (capture->streams.front() != stream) {
    return cuda_shim::invalidate(*capture, cudaErrorStreamCaptureUnmatched);
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return cuda_shim::invalidate(*capture, cudaErrorStreamCaptureWrongThread);
  }
  const std::vector<size_t> last = stream->captured.last;
  cuda_shim::end(capture);
  if (!capture->valid) {
    return set_error(cudaErrorStreamCaptureInvalidated);
  }
  if (!cuda_shim::joined(capture->graph, last)) {
    return set_error(cudaErrorStreamCaptureUnjoined);
  }
  *graph = new CudaShimGraph(std::move(capture->graph));
  return cudaSuccess;
}

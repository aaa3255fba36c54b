// Messages between pairs of ranks. Each has a header with the sender's collective, so that ranks
// that call different collectives are found.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <utility>

#include "nccl_comm.h"

namespace nccl_shim {

namespace {

// The header of a message. It is equal for the matching send and receive.
struct Header {
  int64_t kind;
  int64_t type;
  int64_t count;
  int64_t root;
  bool operator==(const Header&) const = default;
};

float to_float(float value) {
  return value;
}
float to_float(__half value) {
  return __half2float(value);
}
float to_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

void set(float& value, float to) {
  value = to;
}
void set(__half& value, float to) {
  value = __float2half_rn(to);
}
void set(__nv_bfloat16& value, float to) {
  value = __float2bfloat16_rn(to);
}

// The messages of a work, and the steps after them.
class Exchange {
 public:
  explicit Exchange(ncclComm& comm) : comm_(comm) {}

  void add(const Operation& operation) {
    const size_t bytes = operation.count * size_of(operation.type);
    const auto* send = static_cast<const std::byte*>(operation.send);
    auto* receive = static_cast<std::byte*>(operation.receive);
    const bool is_root = operation.peer == comm_.rank;
    switch (operation.kind) {
      case Kind::all_reduce:
        for (int peer = 0; peer < comm_.size; ++peer) {
          send_to(peer, operation, send, bytes);
        }
        return sum(operation, bytes);
      case Kind::reduce:
        send_to(operation.peer, operation, send, bytes);
        return is_root ? sum(operation, bytes) : void();
      case Kind::reduce_scatter:
        for (int peer = 0; peer < comm_.size; ++peer) {
          send_to(peer, operation, send + static_cast<size_t>(peer) * bytes, bytes);
        }
        return sum(operation, bytes);
      case Kind::broadcast:
        if (!is_root) {
          return receive_from(operation.peer, operation, receive, bytes);
        }
        for (int peer = 0; peer < comm_.size; ++peer) {
          if (peer != comm_.rank) {
            send_to(peer, operation, send, bytes);
          }
        }
        after_.emplace_back([=] { std::memmove(receive, send, bytes); });
        return;
      case Kind::all_gather:
        for (int peer = 0; peer < comm_.size; ++peer) {
          send_to(peer, operation, send, bytes);
          receive_from(peer, operation, receive + static_cast<size_t>(peer) * bytes, bytes);
        }
        return;
      case Kind::send:
        return send_to(operation.peer, operation, send, bytes);
      case Kind::receive:
        return receive_from(operation.peer, operation, receive, bytes);
    }
  }

  void run() {
    std::vector<MPI_Request> requests;
    for (Message& message : sends_) {
      start(PMPI_Isend, &message.header, sizeof(Header), message.peer, 0, requests);
    }
    for (Message& message : receives_) {
      start(PMPI_Irecv, &message.told, sizeof(Header), message.peer, 0, requests);
    }
    if (!wait(requests) || !agree()) {
      return;
    }
    for (Message& message : sends_) {
      start(PMPI_Isend, message.data, message.bytes, message.peer, 1, requests);
    }
    for (Message& message : receives_) {
      start(PMPI_Irecv, message.data, message.bytes, message.peer, 1, requests);
    }
    if (!wait(requests)) {
      return;
    }
    for (const auto& work : after_) {
      work();
    }
  }

 private:
  struct Message {
    int peer;
    std::byte* data;
    size_t bytes;
    Header header;
    Header told;
    Kind kind;
  };

  static Header header_of(const Operation& operation) {
    const bool pair = operation.kind == Kind::send || operation.kind == Kind::receive;
    return {static_cast<int64_t>(pair ? Kind::send : operation.kind),
            static_cast<int64_t>(operation.type), static_cast<int64_t>(operation.count),
            pair ? -1 : operation.peer};
  }

  void send_to(int peer, const Operation& operation, const std::byte* data, size_t bytes) {
    sends_.push_back(
        {peer, const_cast<std::byte*>(data), bytes, header_of(operation), {}, operation.kind});
  }

  void receive_from(int peer, const Operation& operation, std::byte* data, size_t bytes) {
    receives_.push_back({peer, data, bytes, header_of(operation), {}, operation.kind});
  }

  // Adds up all ranks' data here, in the order of ranks.
  void sum(const Operation& operation, size_t bytes) {
    switch (operation.type) {
      case ncclFloat16:
        return sum_of<__half>(operation, bytes);
      case ncclBfloat16:
        return sum_of<__nv_bfloat16>(operation, bytes);
      default:  // check_operation() refuses all others
        return sum_of<float>(operation, bytes);
    }
  }

  template <typename T>
  void sum_of(const Operation& operation, size_t bytes) {
    auto parts =
        std::make_shared<std::vector<T>>(operation.count * static_cast<size_t>(comm_.size));
    for (int peer = 0; peer < comm_.size; ++peer) {
      receive_from(peer, operation,
                   reinterpret_cast<std::byte*>(parts->data()) + static_cast<size_t>(peer) * bytes,
                   bytes);
    }
    after_.emplace_back([parts, count = operation.count, ranks = static_cast<size_t>(comm_.size),
                         to = static_cast<T*>(operation.receive)] {
      for (size_t i = 0; i < count; ++i) {
        float total = to_float((*parts)[i]);
        for (size_t rank = 1; rank < ranks; ++rank) {
          total += to_float((*parts)[rank * count + i]);
        }
        set(to[i], total);
      }
    });
  }

  template <typename Call, typename Data>
  void start(Call call, Data* data, size_t bytes, int peer, int tag,
             std::vector<MPI_Request>& requests) {
    if (bytes > 0) {
      requests.push_back(MPI_REQUEST_NULL);
      call(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_.group, &requests.back());
    }
  }

  // Returns true when all messages came; false after an abort.
  bool wait(std::vector<MPI_Request>& requests) {
    int done = 0;
    while (done == 0) {
      if (comm_.aborted) {
        return false;
      }
      PMPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
      if (done == 0) {
        nap();
      }
    }
    requests.clear();
    return true;
  }

  bool agree() {
    for (const Message& message : receives_) {
      const Header& mine = message.header;
      const Header& told = message.told;
      if (mine != told) {
        fail_later(comm_, ncclInvalidArgument,
                   fmt::format("rank {} came to {} of {} elements of type {} with root {}, rank {} "
                               "to {} of {} of type {} with root {}",
                               comm_.rank, name_of(message.kind), mine.count, mine.type, mine.root,
                               message.peer, name_of(static_cast<Kind>(told.kind)), told.count,
                               told.type, told.root));
        return false;
      }
    }
    return true;
  }

  ncclComm& comm_;
  std::vector<Message> sends_;
  std::vector<Message> receives_;
  std::vector<std::function<void()>> after_;
};

}  // namespace

void run_work(const Work& work) {
  static std::atomic<int> runs = 0;
  const int run = ++runs;
  ncclComm& comm = *work.comm;
  const bool fails = has_fault("async_error", run);
  if (fails) {
    fail_later(comm, ncclRemoteError, "a collective fails, as HIDUP_FAKE_NCCL_FAULT says");
  }
  if (fails || has_fault("stall", run)) {
    while (!comm.aborted) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  if (!comm.aborted) {
    auto exchange = std::make_unique<Exchange>(comm);
    for (const Operation& operation : work.operations) {
      exchange->add(operation);
    }
    exchange->run();
    if (comm.aborted) {
      static_cast<void>(exchange.release());  // messages may still come
    }
  }
}

}  // namespace nccl_shim

// Connecting to where a link leads, without anybody waiting for it.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/net/address.h"
#include "base/net/file_descriptor.h"
#include "square/status.h"

namespace square::rpc {

// One attempt. Thread-safe.
class Dial {
 public:
  // `tag` comes on the queue once: when the attempt is over, or was given up.
  Dial(grpc::CompletionQueue& queue, void* tag) : queue_(queue), tag_(tag) {}

  void give_up();
  [[nodiscard]] bool is_over() const;
  // The first outcome counts.
  void finish(Result<net::FileDescriptor> outcome);
  // Once, when the tag has come: the connected socket. Errors: UNAVAILABLE with the reason, in the system's
  // words; CANCELLED where it was given up.
  [[nodiscard]] Result<net::FileDescriptor> take();

 private:
  grpc::CompletionQueue& queue_;  // used before the tag has come
  void* const tag_;
  mutable std::mutex mutex_;
  std::optional<Result<net::FileDescriptor>> outcome_;
  grpc::Alarm alarm_;
};

// One thread waits for sockets that connect. To look a name up blocks, and nobody can end it, so each name
// has a thread of its own that nobody waits for: at most kMaxNameDials in the process.
class Dialler {
 public:
  Dialler();
  // Dials that are not over do not end any more.
  ~Dialler();
  Dialler(const Dialler&) = delete;
  Dialler& operator=(const Dialler&) = delete;

  // Any thread; does not block. `address` is host:port.
  std::shared_ptr<Dial> dial(const std::string& address, grpc::CompletionQueue& queue, void* tag);

 private:
  struct Waiting {
    net::HostPort address;
    net::FileDescriptor socket;
    std::shared_ptr<Dial> dial;
  };

  void run();
  // Takes over what was dialled meanwhile; false if the dialler goes.
  bool gather();

  const net::FileDescriptor event_;
  std::vector<Waiting> waiting_;  // the thread only

  std::mutex mutex_;
  std::vector<Waiting> begun_;
  bool is_going_ = false;
  std::thread thread_;
};

}  // namespace square::rpc

// Ends a line over which nobody says in time who it is, whoever's connection that is.
#pragma once

#include <grpcpp/alarm.h>

#include <atomic>
#include <chrono>
#include <functional>

namespace square::controller {

inline constexpr std::chrono::seconds kHelloTime{10};

// `met()` may come from another thread than `late`, which runs on one of gRPC's, and must hold nothing alive
// that has this.
class HelloDeadline {
 public:
  // Once.
  void begin(std::function<void()> late) {
    // gRPC knows deadlines by the system's clock, and takes the difference at once.
    alarm_.Set(std::chrono::system_clock::now() + kHelloTime, [late = std::move(late)](bool is_time) {
      if (is_time) late();
    });
  }
  void met() { is_met_ = true; }
  [[nodiscard]] bool is_met() const { return is_met_; }

 private:
  std::atomic<bool> is_met_ = false;
  grpc::Alarm alarm_;
};

}  // namespace square::controller

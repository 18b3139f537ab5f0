// What a test's nodes log.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

#include "square/log.h"

namespace square::testing {

// All warnings while it is there. Thread-safe.
class Heard {
 public:
  Heard() {
    set_log_sink(
        [this](LogLevel /*level*/, const LogFields& /*fields*/, std::string_view message) {
          const std::lock_guard lock(mutex_);
          said_ += std::string(message) + '\n';
        },
        LogLevel::kWarning);
  }
  ~Heard() { set_log_sink(nullptr); }
  Heard(const Heard&) = delete;
  Heard& operator=(const Heard&) = delete;

  [[nodiscard]] bool has(std::string_view text) const {
    const std::lock_guard lock(mutex_);
    return said_.find(text) != std::string::npos;
  }

 private:
  mutable std::mutex mutex_;
  std::string said_;
};

}  // namespace square::testing

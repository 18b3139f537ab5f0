// How far a version is made, for those who take it part by part beside.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <stop_token>

#include "square/status.h"

namespace square::ps {

// Thread-safe.
class Progress {
 public:
  // The first `parts` are ready, and do not change any more. 0: what is known before the first one is.
  void advance(std::size_t parts);
  // It will not be made. The first cause stays.
  void fail(Status cause);

  // Blocks until so many parts are ready. Errors: what fail() was given; CANCELLED after a stop.
  Status wait(std::size_t parts, const std::stop_token& stop = {});
  // As wait() would be OK at once.
  [[nodiscard]] bool is_ready(std::size_t parts) const;
  [[nodiscard]] bool has_failed() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  bool has_begun_ = false;
  std::size_t ready_ = 0;
  Status failure_;
};

}  // namespace square::ps

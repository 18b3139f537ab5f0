// How much of a processor this process gets.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "collective/examination/json.h"
#include "square/units.h"

namespace square::examination {

inline constexpr int kBursts = 3;

// Measures from its construction to end(). Not thread-safe.
class ProcessorWatch {
 public:
  ProcessorWatch();
  // Computes for a moment of this thread's processor time, and notes what part of the time that passed it
  // got.
  void burn();
  // Processors, what the process may have of them, and what it got.
  [[nodiscard]] Json end() const;

 private:
  struct Sample {
    std::chrono::steady_clock::time_point at;
    double used_seconds = 0;       // by all threads of the process
    double waited_seconds = 0;     // ready to run, and others ran
    double throttled_seconds = 0;  // by the control group's limit
  };
  static Sample look();

  const Sample begin_;
  std::vector<double> shares_;
  double running_ = 0;  // on the host at the same time, at the most
};

}  // namespace square::examination

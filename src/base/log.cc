#include "base/log.h"

#include <atomic>
#include <mutex>

namespace square {
namespace {

struct Sink {
  std::mutex mutex;
  LogSink function;
  // kError + 1 while there is no sink, so that nothing is formatted for nobody.
  std::atomic<int> minimum{static_cast<int>(LogLevel::kError) + 1};
};

Sink& sink() {
  static Sink* const instance = new Sink;  // outlives threads that log during exit
  return *instance;
}

}  // namespace

void set_log_sink(LogSink function, LogLevel minimum) {
  const std::lock_guard lock(sink().mutex);
  sink().minimum = function ? static_cast<int>(minimum) : static_cast<int>(LogLevel::kError) + 1;
  sink().function = std::move(function);
}

namespace internal {

bool log_enabled(LogLevel level) {
  return static_cast<int>(level) >= sink().minimum.load(std::memory_order_relaxed);
}

void log_write(LogLevel level, std::string_view component, std::string_view message) {
  const std::lock_guard lock(sink().mutex);
  if (sink().function) sink().function(level, component, message);
}

}  // namespace internal
}  // namespace square

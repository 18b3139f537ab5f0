#include "base/log.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace square {
namespace {

struct Sink {
  std::mutex mutex;
  std::shared_ptr<const LogSink> function;
  // kError + 1 while there is no sink, so that nothing is formatted for nobody.
  std::atomic<int> minimum{static_cast<int>(LogLevel::kError) + 1};
};

Sink& sink() {
  static Sink* const instance = new Sink;  // outlives threads that log during exit
  return *instance;
}

}  // namespace

void set_log_sink(LogSink function, LogLevel minimum) {
  auto next = function ? std::make_shared<const LogSink>(std::move(function)) : nullptr;
  std::unique_lock lock(sink().mutex);
  sink().minimum = static_cast<int>(next ? minimum : LogLevel::kError) + (next ? 0 : 1);
  sink().function.swap(next);
  lock.unlock();  // before the old one goes
}

namespace internal {

bool log_enabled(LogLevel level) {
  return static_cast<int>(level) >= sink().minimum.load(std::memory_order_relaxed);
}

void log_write(LogLevel level, const LogFields& fields, std::string_view message) {
  // What others have sent is in many of them: no line end, and no word to a terminal.
  std::string plain(message);
  std::ranges::replace_if(
      plain, [](unsigned char letter) { return letter < 0x20 || letter == 0x7f; }, '?');
  // As UTF-8 the rest of them, 0x80 to 0x9f, are this byte and one of these values.
  for (std::size_t at = 0; (at = plain.find('\xc2', at)) != std::string::npos; ++at) {
    const auto next = static_cast<unsigned char>(at + 1 < plain.size() ? plain[at + 1] : 0);
    if (next >= 0x80 && next <= 0x9f) plain.replace(at, 2, "?");
  }
  // Called without the lock: the sink may wait for locks that set_log_sink()'s caller holds.
  std::shared_ptr<const LogSink> function;
  {
    const std::lock_guard lock(sink().mutex);
    function = sink().function;
  }
  if (function) (*function)(level, fields, plain);
}

}  // namespace internal
}  // namespace square

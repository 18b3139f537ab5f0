// Where the library's messages go. The library itself never writes to standard
// error or standard output: without a sink, messages are dropped.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "square/ids.h"

namespace square {

enum class LogLevel : int { kDebug = 10, kInfo = 20, kWarning = 30, kError = 40 };

// What a message is about, for programs that sort messages; its text says it too. What is
// empty was not said.
struct LogFields {
  std::string_view component;  // "node", "transport", "controller"
  std::string_view node = {};  // of the overlay: where it happened, or whom it is about
  std::string_view peer = {};  // the other end of a link
  std::optional<CollectiveId> collective = {};
  std::optional<Epoch> epoch = {};
};

// Receives one message without a line end. Called from any thread, also
// from several at once; must not call back into Square.
using LogSink = std::function<void(LogLevel level, const LogFields& fields, std::string_view message)>;

// Replaces the process-wide sink; an empty function drops everything. Messages
// under `minimum` are dropped before they are formatted. Thread-safe.
void set_log_sink(LogSink sink, LogLevel minimum = LogLevel::kInfo);

}  // namespace square

// Where the library's messages go. The library itself never writes to standard
// error or standard output: without a sink, messages are dropped.
#pragma once

#include <functional>
#include <string_view>

namespace square {

enum class LogLevel : int { kDebug = 10, kInfo = 20, kWarning = 30, kError = 40 };

// Receives one message without a line end. Called from any thread, also
// from several at once; must not call back into Square.
using LogSink = std::function<void(LogLevel level, std::string_view component, std::string_view message)>;

// Replaces the process-wide sink; an empty function drops everything. Messages
// under `minimum` are dropped before they are formatted. Thread-safe.
void set_log_sink(LogSink sink, LogLevel minimum = LogLevel::kInfo);

}  // namespace square

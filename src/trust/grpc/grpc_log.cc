#include "trust/grpc/grpc_log.h"

#include <google/protobuf/stubs/common.h>
#if GOOGLE_PROTOBUF_VERSION < 4022000
#include <google/protobuf/stubs/logging.h>
#endif
#include <grpc/support/log.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/seldom.h"

namespace square::trust {
namespace {

// Errors to gRPC that are none to us: it looks at names of hosts in certificates whether or not it is asked
// to, and ours name none.
constexpr std::string_view kNoHostName = "No match found for server name";
// It does not say whose, and anybody can make it: the ends of connections are told with their peers
// elsewhere.
constexpr std::array<std::string_view, 2> kOfStrangers{"Handshake failed", "cancel_check_peer"};

bool is_of_strangers(std::string_view words) {
  return std::ranges::any_of(
      kOfStrangers, [&](std::string_view part) { return words.find(part) != std::string_view::npos; });
}

void pass_on(gpr_log_func_args* said) {
  const std::string_view words(said->message);
  if (words.starts_with(kNoHostName)) return;
  const bool is_error = said->severity == GPR_LOG_SEVERITY_ERROR && !is_of_strangers(words);
  log(is_error ? LogLevel::kWarning : LogLevel::kDebug, "grpc", "{}", words);
}

// Later releases of protobuf log by a library of their own.
#if GOOGLE_PROTOBUF_VERSION < 4022000
// A message that is no UTF-8 makes it say so, before anybody has looked at the message.
void pass_on_of_protobuf(google::protobuf::LogLevel level, const char* /*file*/, int /*line*/,
                         const std::string& words) {
  static Seldom said;
  if (level < google::protobuf::LOGLEVEL_WARNING) return;
  log_seldom(said, "", {.component = "protobuf"}, "{}", words);
}

void hear_protobuf() { google::protobuf::SetLogHandler(pass_on_of_protobuf); }
#else
void hear_protobuf() {}
#endif

}  // namespace

void hear_grpc() {
  static const bool is_heard = [] {
    gpr_set_log_function(pass_on);
    hear_protobuf();
    return true;
  }();
  (void)is_heard;
}

}  // namespace square::trust

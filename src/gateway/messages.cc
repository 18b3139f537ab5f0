#include "gateway/messages.h"

#include <fmt/format.h>

#include <algorithm>

namespace square::gateway {

void put_status(const Status& status, v1::GatewayStatus& message) {
  message.set_code(static_cast<std::uint32_t>(status.code()));
  message.set_message(status.message().substr(0, kMaxErrorBytes));
}

Status status_of(const v1::GatewayStatus& message) {
  if (message.code() == 0) return {};
  const bool is_known = message.code() <= static_cast<std::uint32_t>(StatusCode::kUnauthenticated);
  return {is_known ? static_cast<StatusCode>(message.code()) : StatusCode::kUnknown,
          message.message().substr(0, kMaxErrorBytes)};
}

std::string body_of(const google::protobuf::MessageLite& message) { return message.SerializeAsString(); }

Status parse_body(MessageType type, std::span<const std::byte> body, google::protobuf::MessageLite& message) {
  if (message.ParseFromArray(body.data(), static_cast<int>(body.size()))) return {};
  return invalid_argument(fmt::format("a {} message that cannot be read", to_string(type)));
}

std::uint64_t to_nanoseconds(Duration duration) {
  return static_cast<std::uint64_t>(std::max(duration, Duration(0)).count());
}

Duration from_nanoseconds(std::uint64_t nanoseconds) {
  return Duration(
      static_cast<Duration::rep>(std::min(nanoseconds, static_cast<std::uint64_t>(Duration::max().count()))));
}

}  // namespace square::gateway

// Statuses and sizes as the messages of gateway.proto have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "gateway/frame.h"
#include "square/status.h"
#include "square/units.h"
#include "square/v1/gateway.pb.h"

namespace square::gateway {

// Longer texts of errors are cut, when they are sent and when they come.
inline constexpr std::size_t kMaxErrorBytes = 4096;

void put_status(const Status& status, v1::GatewayStatus& message);
Status status_of(const v1::GatewayStatus& message);

// The serialised message.
std::string body_of(const google::protobuf::MessageLite& message);

// Errors: INVALID_ARGUMENT naming the type.
Status parse_body(MessageType type, std::span<const std::byte> body, google::protobuf::MessageLite& message);

std::uint64_t to_nanoseconds(Duration duration);
Duration from_nanoseconds(std::uint64_t nanoseconds);

}  // namespace square::gateway
